//! Reports of packet mode runs, and their text.

use std::fmt::{self, Display};

use hawser_scenario::Phase;
use serde::Serialize;

/// What came of a flow's packets, the warm-up left out. Delays in µs.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Disorder {
    /// Packets sent.
    pub sent: u64,
    /// Those of them that arrived.
    pub arrived: u64,
    /// Those that arrived after one that was sent later.
    pub disordered: u64,
    /// Median from the sender's queue to the receiver's application.
    pub delay_p50: u64,
    /// As many were later than one in a hundred.
    pub delay_p99: u64,
}

/// One flow of UDP. Rates in kbit/s of inner packets.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct UdpReport {
    /// The policy.
    pub policy: &'static str,
    /// What was sent.
    pub offered: u64,
    /// What arrived.
    pub goodput: u64,
    /// Loss, order and delay.
    pub flow: Disorder,
    /// Bytes that each link carried, the warm-up included.
    pub placed: Vec<u64>,
    /// Packets that the sender's queue dropped, the warm-up included.
    pub dropped: u64,
    /// Packets that came after they had counted as lost, the warm-up included.
    pub late: u64,
}

/// A call beside bulk.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct CallReport {
    /// The policy.
    pub policy: &'static str,
    /// The call.
    pub call: Disorder,
    /// Goodput of the bulk in the call's direction, in kbit/s of payload.
    pub bulk: u64,
}

/// One connection. Rates in kbit/s of its payload.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ConnectionReport {
    /// The policy.
    pub policy: &'static str,
    /// What it speaks.
    pub protocol: &'static str,
    /// The connection's congestion control.
    pub congestion: &'static str,
    /// What the paths' payload allows.
    pub allowed: u64,
    /// What arrived.
    pub goodput: u64,
    /// Packets of it that were sent again.
    pub retransmissions: u64,
    /// Packets that the sender's queue dropped.
    pub dropped: u64,
    /// Packets that came after they had counted as lost.
    pub late: u64,
}

/// One flow of UDP while links come and go.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct RoamReport {
    /// The scenario.
    pub scenario: String,
    /// The policy.
    pub policy: &'static str,
    /// Both ends heard of a link's going before it went.
    pub announced: bool,
    /// What was sent, in kbit/s of inner packets.
    pub offered: u64,
    /// What came of it, by the time of sending.
    pub phases: Vec<RoamPhase>,
}

/// What came of the packets that were sent in a phase. Times in µs.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct RoamPhase {
    /// The phase.
    pub phase: Phase,
    /// Packets sent.
    pub sent: u64,
    /// Those of them that did not arrive.
    pub lost: u64,
    /// Median from the sender's queue to the receiver's application.
    pub delay_p50: u64,
    /// As many were later than one in a hundred.
    pub delay_p99: u64,
    /// The longest time without an arrival that ended in the phase.
    pub gap: u64,
}

/// One connection while links come and go.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct RateReport {
    /// The scenario.
    pub scenario: String,
    /// The policy.
    pub policy: &'static str,
    /// The connection's congestion control.
    pub congestion: &'static str,
    /// Both ends heard of a link's going before it went.
    pub announced: bool,
    /// What arrived.
    pub phases: Vec<RatePhase>,
}

/// What arrived in a phase. Rates in kbit/s of payload.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct RatePhase {
    /// The phase.
    pub phase: Phase,
    /// What its links allow.
    pub allowed: u64,
    /// What arrived.
    pub goodput: u64,
    /// Packets that the sender's queue dropped.
    pub dropped: u64,
    /// Time from the phase's beginning to that of the first half second with nine tenths of
    /// `allowed`, in ms; `None` if there was none.
    pub full_after: Option<u64>,
    /// The least half second in its first two seconds.
    pub least: u64,
}

/// All runs of one scenario.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct PacketReport {
    /// The scenario.
    pub scenario: String,
    /// Which way the packets went.
    pub direction: &'static str,
    /// Mean random loss of the links, by what was placed on each, in millionths.
    pub own_loss: u64,
    /// Delay of the quickest link without a queue, in µs.
    pub quickest: u64,
    /// One flow of UDP.
    pub udp: UdpReport,
    /// A call beside bulk.
    pub call: CallReport,
    /// The same call alone.
    pub lone_call: CallReport,
}

impl Disorder {
    /// Packets that did not arrive, in millionths.
    pub fn lost(&self) -> u64 {
        (self.sent - self.arrived) * 1_000_000 / self.sent.max(1)
    }
}

/// Reports, one a line, with a heading.
#[derive(Debug)]
pub struct PacketTable<'a>(pub &'a [PacketReport]);

impl Display for PacketTable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<14} {:<4} {:<10} {:>8} {:>8} {:>6} {:>6} {:>6} {:>8} {:>8} {:>8} {:>8} {:>8} \
             {:>8} {:>8}",
            "scenario",
            "",
            "policy",
            "offered",
            "goodput",
            "lost",
            "own",
            "order",
            "p50",
            "p99",
            "alone",
            "call p50",
            "call p99",
            "call -",
            "bulk"
        )?;
        for it in self.0 {
            writeln!(
                f,
                "{:<14} {:<4} {:<10} {:>8} {:>8} {:>6} {:>6} {:>6} {:>8} {:>8} {:>8} {:>8} {:>8} \
                 {:>8} {:>8}",
                it.scenario,
                it.direction,
                it.udp.policy,
                it.udp.offered,
                it.udp.goodput,
                it.udp.flow.lost(),
                it.own_loss,
                it.udp.flow.disordered,
                it.udp.flow.delay_p50,
                it.udp.flow.delay_p99,
                it.lone_call.call.delay_p99,
                it.call.call.delay_p50,
                it.call.call.delay_p99,
                it.call.call.sent - it.call.call.arrived,
                it.call.bulk,
            )?;
        }
        writeln!(
            f,
            "rates in kbit/s, lost and own in millionths, order in packets, delays in µs, alone: \
             p99 of a call without bulk, call - in packets lost"
        )
    }
}

/// Connections, one a line, with a heading.
#[derive(Debug)]
pub struct ConnectionTable<'a>(pub &'a [(String, ConnectionReport)]);

impl Display for ConnectionTable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<18} {:<10} {:<5} {:<6} {:>8} {:>8} {:>8} {:>6} {:>7} {:>6}",
            "links", "policy", "", "", "allowed", "goodput", "/allowed", "again", "dropped", "late"
        )?;
        for (links, it) in self.0 {
            writeln!(
                f,
                "{:<18} {:<10} {:<5} {:<6} {:>8} {:>8} {:>8} {:>6} {:>7} {:>6}",
                links,
                it.policy,
                it.protocol,
                it.congestion,
                it.allowed,
                it.goodput,
                it.goodput * 1000 / it.allowed.max(1),
                it.retransmissions,
                it.dropped,
                it.late,
            )?;
        }
        writeln!(
            f,
            "rates in kbit/s of payload, /allowed in thousandths, again, dropped and late in packets"
        )
    }
}

/// Phases, one a line, with a heading.
#[derive(Debug)]
pub struct RoamTable<'a>(pub &'a [RoamReport]);

impl Display for RoamTable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<10} {:<10} {:<12} {:>8} {:>5} {:<9} {:>6} {:>5} {:>8} {:>8} {:>8}",
            "scenario",
            "policy",
            "",
            "offered",
            "from",
            "links",
            "sent",
            "lost",
            "p50",
            "p99",
            "gap"
        )?;
        for it in self.0 {
            let how = announcement(it.announced);
            for own in &it.phases {
                writeln!(
                    f,
                    "{:<10} {:<10} {:<12} {:>8} {:>4}s {:<9} {:>6} {:>5} {:>8} {:>8} {:>8}",
                    it.scenario,
                    it.policy,
                    how,
                    it.offered,
                    own.phase.from.as_secs(),
                    names(&own.phase),
                    own.sent,
                    own.lost,
                    own.delay_p50,
                    own.delay_p99,
                    own.gap,
                )?;
            }
        }
        writeln!(
            f,
            "rates in kbit/s, delays and gaps in µs, sent and lost in packets"
        )
    }
}

/// Phases of connections, one a line, with a heading.
#[derive(Debug)]
pub struct RateTable<'a>(pub &'a [RateReport]);

impl Display for RateTable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<10} {:<10} {:<6} {:<12} {:>5} {:<9} {:>8} {:>8} {:>7} {:>8} {:>8}",
            "scenario",
            "policy",
            "",
            "",
            "from",
            "links",
            "allowed",
            "goodput",
            "dropped",
            "full",
            "least"
        )?;
        for it in self.0 {
            for own in &it.phases {
                let full = own.full_after.map(|after| after.to_string());
                writeln!(
                    f,
                    "{:<10} {:<10} {:<6} {:<12} {:>4}s {:<9} {:>8} {:>8} {:>7} {:>8} {:>8}",
                    it.scenario,
                    it.policy,
                    it.congestion,
                    announcement(it.announced),
                    own.phase.from.as_secs(),
                    names(&own.phase),
                    own.allowed,
                    own.goodput,
                    own.dropped,
                    full.as_deref().unwrap_or("-"),
                    own.least,
                )?;
            }
        }
        writeln!(
            f,
            "rates in kbit/s of payload, dropped in packets, full: ms until nine tenths of what is \
             allowed, least: half a second in the first two"
        )
    }
}

fn announcement(announced: bool) -> &'static str {
    if announced {
        "announced"
    } else {
        "unannounced"
    }
}

/// The phase's links, from 1.
fn names(phase: &Phase) -> String {
    let links = phase.links.iter().map(|it| (it + 1).to_string());
    links.collect::<Vec<_>>().join("+")
}
