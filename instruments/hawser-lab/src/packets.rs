//! Packets over all links: iperf3, QUIC and ping by `hawser run --tun`, beside each link alone.

mod forwarded;
mod policies;
mod quic;
mod stage;
mod tools;
mod unshaped;
mod wireguard;

use std::path::Path;

use serde::Serialize;

pub(crate) use self::policies::{PoliciesOptions, run as run_policies};
use self::stage::{INTERVAL, PAYLOAD, Stage, Way};
use self::tools::Udp;
pub(crate) use self::unshaped::{UnshapedOptions, run as run_unshaped};
pub(crate) use self::wireguard::{FAR_END, WireGuard};
use crate::experiment::{Directions, Findings, Head};
use crate::measure::{Bench, Programs, StepError, alike, available_controls, quickest_link};
use crate::meter::{Congestion, QuicControl};
use crate::scenario::{Direction, Scenario};
use crate::statistics::Spread;
use crate::text_table::{aligned, cells};
use crate::topology::Lab;
use crate::verdict::{Asked, Verdict};

/// Options of the experiment.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Seconds of each flow
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(4..=600))]
    seconds: u64,
    /// Direction of the flows
    #[arg(long, default_value = "both")]
    direction: Directions,
    /// Kinds of rows to measure
    #[arg(long, value_delimiter = ',', default_values = ["udp", "tcp", "quic", "call"])]
    rows: Vec<Kind>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    Udp,
    Tcp,
    Quic,
    Call,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Quic => "quic",
            Self::Call => "call",
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct PacketsReport {
    #[serde(flatten)]
    head: Head,
    span_seconds: f64,
    verdicts: Vec<Verdict>,
    tcp: Vec<FlowRow>,
    quic: Vec<FlowRow>,
    udp: Vec<UdpRow>,
    calls: Vec<CallRow>,
    failures: Vec<String>,
}

/// One connection inside, beside the same on each link alone.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct FlowRow {
    protocol: &'static str,
    direction: Direction,
    congestion: &'static str,
    /// Goodput on each link alone, in Mbit/s.
    alone: Vec<f64>,
    /// Over all, by the tunnel.
    tunnel: f64,
}

/// One flow of UDP.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct UdpRow {
    direction: Direction,
    offered_mbps: f64,
    /// Mean random loss of the links, by their rates.
    own_loss: f64,
    #[serde(flatten)]
    flow: Udp,
}

/// Packets as a call has them. Times in seconds.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct CallRow {
    what: &'static str,
    round_trip: Option<Spread>,
    /// The longest time without an answer.
    gap: f64,
}

/// Measures one scenario, with logs in `folder`.
pub(crate) fn run(
    scenario: &Scenario,
    options: &Options,
    programs: &Programs,
    folder: &Path,
) -> anyhow::Result<PacketsReport> {
    std::fs::create_dir_all(folder)?;
    let bench = Bench::new(Lab::shaped(scenario)?, folder)?;
    let mut report = PacketsReport {
        head: Head::new("packets", &scenario.name),
        span_seconds: options.seconds as f64,
        verdicts: Vec::new(),
        tcp: Vec::new(),
        quic: Vec::new(),
        udp: Vec::new(),
        calls: Vec::new(),
        failures: Vec::new(),
    };
    let measurement = Measurement {
        scenario,
        options,
        stage: Stage::new(&bench, programs)?,
        bench: &bench,
    };
    let is_asked = |kind| options.rows.contains(&kind);
    for direction in options.direction.directions() {
        if is_asked(Kind::Udp) {
            let row = measurement.udp(direction);
            report.take(Kind::Udp, row, |report, row| report.udp.push(row));
        }
        if is_asked(Kind::Tcp) {
            for control in available_controls() {
                let row = measurement.tcp(direction, control);
                report.take(Kind::Tcp, row, |report, row| report.tcp.push(row));
            }
        }
        if is_asked(Kind::Quic) {
            for control in QuicControl::ALL {
                let row = measurement.quic(direction, control);
                report.take(Kind::Quic, row, |report, row| report.quic.push(row));
            }
        }
    }
    if is_asked(Kind::Call) {
        for what in Call::ALL {
            let row = measurement.call(what);
            report.take(Kind::Call, row, |report, row| report.calls.push(row));
        }
    }
    bench.check_emulator()?;
    report.verdicts = report.judge(scenario);
    Ok(report)
}

struct Measurement<'a> {
    scenario: &'a Scenario,
    options: &'a Options,
    bench: &'a Bench,
    stage: Stage<'a>,
}

/// What goes on beside a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    /// The quickest link alone.
    Alone,
    /// Nothing.
    Idle,
    BesideBulk,
    /// The quickest link falls silent.
    Cut,
}

impl Call {
    const ALL: [Self; 4] = [Self::Alone, Self::Idle, Self::BesideBulk, Self::Cut];

    fn name(self) -> &'static str {
        match self {
            Self::Alone => "quickest link alone",
            Self::Idle => "tunnel",
            Self::BesideBulk => "tunnel beside bulk",
            Self::Cut => "tunnel, quickest link silent",
        }
    }
}

impl Measurement<'_> {
    fn tcp(&self, direction: Direction, control: Congestion) -> Result<FlowRow, StepError> {
        let seconds = self.options.seconds;
        let links = self.bench.lab().links().iter();
        let alone = links
            .map(|link| {
                let way = Way::Link(link.address());
                self.stage.tcp(way, direction, control, seconds)
            })
            .collect::<Result<_, _>>()?;
        let row = FlowRow {
            protocol: "tcp",
            direction,
            congestion: control.name(),
            alone,
            tunnel: self.stage.tcp(Way::Tunnel, direction, control, seconds)?,
        };
        eprintln!("  tcp: {row:?}");
        Ok(row)
    }

    fn quic(&self, direction: Direction, control: QuicControl) -> Result<FlowRow, StepError> {
        let (scenario, seconds) = (self.scenario, self.options.seconds);
        let (stage, bench) = (&self.stage, self.bench);
        let (alone, tunnel) = quic::measure(scenario, bench, stage, direction, control, seconds)?;
        let row = FlowRow {
            protocol: "quic",
            direction,
            congestion: control.name(),
            alone,
            tunnel,
        };
        eprintln!("  quic: {row:?}");
        Ok(row)
    }

    fn udp(&self, direction: Direction) -> Result<UdpRow, StepError> {
        let rates = self.scenario.links.iter().map(|link| link.line(direction));
        let (mut total, mut lost) = (0.0, 0.0);
        for line in rates {
            let rate = line.rate.bits_per_second() as f64;
            total += rate;
            lost += rate * line.loss.mean;
        }
        let offered = total * PAYLOAD as f64 / ON_THE_LINK * SHARE;
        let row = UdpRow {
            direction,
            offered_mbps: offered / 1e6,
            own_loss: lost / total,
            flow: self
                .stage
                .udp(direction, offered as u64, self.options.seconds)?,
        };
        eprintln!("  udp: {row:?}");
        Ok(row)
    }

    fn call(&self, what: Call) -> Result<CallRow, StepError> {
        let seconds = self.options.seconds;
        let (quickest, _) = quickest_link(self.scenario);
        let echoes = match what {
            Call::Alone => {
                let address = self.bench.lab().links()[quickest].address();
                self.stage.idle(address, seconds)
            }
            Call::Idle => self.stage.echoes(seconds),
            Call::BesideBulk => self.stage.echoes_beside_bulk(seconds),
            Call::Cut => self.stage.echoes_over_cut(quickest, seconds),
        }?;
        let row = CallRow {
            what: what.name(),
            gap: echoes.gap(INTERVAL).as_secs_f64(),
            round_trip: Spread::of(&echoes.round_trips),
        };
        eprintln!("  call: {row:?}");
        Ok(row)
    }
}

impl PacketsReport {
    fn take<T>(&mut self, kind: Kind, row: Result<T, StepError>, enter: impl FnOnce(&mut Self, T)) {
        match row {
            Ok(row) => enter(self, row),
            Err(error) => self.failures.push(format!("{}: {error}", kind.name())),
        }
    }

    fn flows(&self) -> impl Iterator<Item = &FlowRow> {
        self.tcp.iter().chain(&self.quic)
    }

    fn judge(&self, scenario: &Scenario) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        for row in &self.udp {
            let name = |what| format!("udp {}: {what}", row.direction.name());
            let beyond = (row.flow.lost - row.own_loss).max(0.0);
            verdicts.push(Verdict::new(
                name("lost beyond the links' own"),
                beyond,
                LOSS,
            ));
            let disordered = row.flow.disordered as f64;
            verdicts.push(Verdict::new(
                name("out of order"),
                disordered,
                Asked::AtMost(0.0),
            ));
        }
        for row in self.flows() {
            let kind = [row.protocol, row.congestion, row.direction.name()].join(" ");
            let name = |what| format!("{kind}: {what}");
            let is_alike = alike(scenario, row.direction) > 0;
            let asked = if is_alike { ALIKE } else { UNLIKE };
            let sum: f64 = row.alone.iter().sum();
            let best = row.alone.iter().copied().fold(f64::MIN, f64::max);
            verdicts.push(Verdict::new(name("of the sum"), row.tunnel / sum, asked));
            verdicts.push(Verdict::new(
                name("of the best link"),
                row.tunnel / best,
                BEST,
            ));
        }
        let call = |what: Call| self.calls.iter().find(|row| row.what == what.name());
        let idle = call(Call::Alone).and_then(|row| row.round_trip.as_ref());
        let Some(idle) = idle.map(|spread| spread.median) else {
            return verdicts;
        };
        if let Some(beside) = call(Call::BesideBulk).and_then(|row| row.round_trip.as_ref()) {
            let what = "call beside bulk: p99 above idle, ms".to_owned();
            let above = (beside.p99 - idle) * 1e3;
            verdicts.push(Verdict::new(what, above, Asked::AtMost(10.0)));
        }
        if let Some(cut) = call(Call::Cut) {
            let what = "silent link: gap beyond a round trip, ms".to_owned();
            verdicts.push(Verdict::new(
                what,
                (cut.gap - idle) * 1e3,
                Asked::AtMost(150.0),
            ));
        }
        verdicts
    }
}

impl Findings for PacketsReport {
    fn head(&self) -> &Head {
        &self.head
    }

    fn table(&self) -> String {
        let title = format!("packets by the tunnel, {} s each", self.span_seconds);
        let mut rows = vec![cells(["", "", "alone, Mbit/s", "tunnel"])];
        for row in self.flows() {
            let alone: Vec<_> = row.alone.iter().map(|it| format!("{it:.1}")).collect();
            rows.push(cells([
                &format!("{} {}", row.protocol, row.congestion),
                row.direction.name(),
                &alone.join(" + "),
                &format!("{:.1}", row.tunnel),
            ]));
        }
        rows.push(cells([
            "",
            "",
            "offered",
            "arrived",
            "lost, ppm",
            "own",
            "disorder",
            "jitter, ms",
        ]));
        for UdpRow {
            direction,
            offered_mbps,
            own_loss,
            flow,
        } in &self.udp
        {
            rows.push(cells([
                "udp",
                direction.name(),
                &format!("{offered_mbps:.1}"),
                &format!("{:.1}", flow.mbps),
                &format!("{:.0}", flow.lost * 1e6),
                &format!("{:.0}", own_loss * 1e6),
                &flow.disordered.to_string(),
                &format!("{:.2}", flow.jitter_ms),
            ]));
        }
        rows.push(cells(["", "", "median, ms", "p99", "max", "gap"]));
        for row in &self.calls {
            let millis = |of: fn(&Spread) -> f64| {
                let spread = row.round_trip.as_ref();
                spread.map_or("-".to_owned(), |it| format!("{:.1}", of(it) * 1e3))
            };
            rows.push(cells([
                row.what,
                "",
                &millis(|it| it.median),
                &millis(|it| it.p99),
                &millis(|it| it.max),
                &format!("{:.0}", row.gap * 1e3),
            ]));
        }
        self.head.title(&title) + &aligned(&rows)
    }

    fn failures(&self) -> Vec<String> {
        self.failures.clone()
    }

    fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }
}

/// Bytes on the link of a packet with [`PAYLOAD`]: with inner and outer headers of IPv4 and UDP,
/// and what tunnel, association and seal add.
const ON_THE_LINK: f64 = (PAYLOAD + 28 + 68) as f64;
/// Share of what the links carry that is offered.
const SHARE: f64 = 0.95;
const LOSS: Asked = Asked::AtMost(0.001);
const ALIKE: Asked = Asked::AtLeast(0.95);
const UNLIKE: Asked = Asked::AtLeast(0.90);
const BEST: Asked = Asked::AtLeast(0.98);
