use std::time::Duration;

use hawser_sched::chunk::ChunkPolicy;
use hawser_types::ByteCount;
use hawser_wire::sctp::Framing;

/// How an association behaves.
#[derive(Clone, Debug, PartialEq)]
pub struct AssociationConfig {
    /// This end's SCTP port.
    pub port: u16,
    /// The peer's SCTP port, where this end begins.
    pub peer_port: u16,
    /// How packets are known to be whole.
    pub checksum: Checksum,
    /// How they are framed, which both ends have to know. [`Framing::Compact`] is for an endpoint whose
    /// packets are all sealed with keys for one association, which one of both begins: it never begins anew.
    pub framing: Framing,
    /// Streams to send on, from 1; the peer may allow fewer.
    pub outbound_streams: u16,
    /// Streams that the peer may send on, from 1.
    pub inbound_streams: u16,
    /// The most that waits for a reader, or for its beginning to arrive; at least [`Self::MIN_BUFFER`].
    pub receive_buffer: ByteCount,
    /// Heartbeats tell the peer which of this host's links they leave by: for peers who are to know that where addresses
    /// do not say it, and under a seal only.
    pub names_links: bool,
    /// The most that waits for acknowledgement; at least [`Self::MIN_BUFFER`]. Small messages of streams that have
    /// nothing waiting may take a quarter more.
    pub send_buffer: ByteCount,
    /// The longest message.
    pub max_message: ByteCount,
    /// RTO.Initial.
    pub rto_initial: Duration,
    /// RTO.Min.
    pub rto_min: Duration,
    /// RTO.Max.
    pub rto_max: Duration,
    /// HB.Interval: how long a path may be idle before it is asked.
    pub heartbeat_interval: Duration,
    /// Path.Max.Retrans: after more time-outs in a row than this, the path is unavailable.
    pub path_max_retransmissions: u32,
    /// Association.Max.Retrans: after more than this on every path, the association is lost.
    pub association_max_retransmissions: u32,
    /// Max.Init.Retransmits.
    pub max_init_retransmissions: u32,
    /// How INIT and COOKIE ECHO are repeated.
    pub begin: Begin,
    /// Valid.Cookie.Life.
    pub cookie_life: Duration,
    /// SACK.Delay: an acknowledgement waits for so long for a second packet.
    pub sack_delay: Duration,
    /// Which paths carry data.
    pub selection: Selection,
    /// How each path's window grows.
    pub control: Control,
    /// How losses are told.
    pub losses: LossRule,
    /// Which path the next chunk goes to.
    pub policy: ChunkPolicy,
    /// Paths that share a bottleneck grow together as one would (RFC 6356) instead of each by itself.
    pub coupled: bool,
    /// I-DATA is offered (RFC 8260), so that long messages do not hold up others.
    pub interleaving: bool,
    /// FORWARD-TSN is offered (RFC 3758), so that messages can be given up.
    pub partial_reliability: bool,
    /// The largest packet that paths over IPv4 are probed for, with its SCTP header; over IPv6 it is the 20
    /// bytes less that its header is longer. Below [`Self::BASE_PACKET`], for experiments, it is what every
    /// path is taken to carry.
    pub max_packet: usize,
}

/// How packets are known to be whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// CRC-32c.
    Crc32c,
    /// What carries the packets sees to it; the field is zero (RFC 9653).
    Below,
}

/// How this end begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// Over one route after the other, again after RTO.Initial. Source: RFC 9260 §5.1, §6.3.
    InTurn,
    /// Over all routes at once, and again soon: for a peer that expects it, but may hear so a moment later than
    /// the first packet comes.
    AtOnce,
}

/// Which pairs of addresses carry data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Selection {
    /// Every one that answers; policies see to slow ones.
    Answering,
    /// The paper's: at most max(m, n) of them, by round-trip time, none slower than so many times
    /// the quickest, and every address once where that can be. Source: SCTP aggregation §3.2.
    Paper {
        /// θ, from 1.
        theta: f64,
    },
}

/// How chunks are found to be lost, and what is done so that it shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LossRule {
    /// By what left later over the same path, so that paths of different delay never make each other's
    /// chunks look lost; with probes, and with copies over quicker paths. Source: RFC 9002 §6.1.
    #[default]
    PerPath,
    /// By missing reports, whichever path brought what came before: for experiments. Windows grow
    /// only when the cumulative TSN moves, and nothing is probed, copied or undone.
    ///
    /// Source: RFC 2960 §7.2; that only what is newly acknowledged reports others as missing, and that
    /// a chunk is repeated in this way once: RFC 4460 §2.8 and §2.26.
    Reports {
        /// So many make a chunk lost; four in RFC 2960 §7.2.4.
        missing: u32,
    },
}

/// How a path's congestion window moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// As SCTP's specification says, from four packets. Source: RFC 9260 §7.
    Reno,
    /// Likewise by its first edition, which begins with two packets and never falls below them but by a
    /// time-out. Source: RFC 2960 §7.2.
    FirstReno,
    /// Source: RFC 9438, with HyStart++ (RFC 9406).
    Cubic,
    /// By measured rate and round-trip time. Source: draft-ietf-ccwg-bbr.
    Bbr,
}

impl AssociationConfig {
    /// The smallest buffer, for either direction.
    pub const MIN_BUFFER: ByteCount = ByteCount::new(64 * 1024);
    /// What every path is taken to carry: PLPMTUD's base (RFC 8899), with the SCTP header.
    pub const BASE_PACKET: usize = 1200;

    /// What every path is taken to carry.
    pub(crate) fn base_packet(&self) -> usize {
        let unit = self.framing.unit();
        let most = self.max_packet / unit * unit;
        most.clamp(MIN_PACKET, Self::BASE_PACKET)
    }

    /// The largest that a path is probed for, not less than the base.
    pub(crate) fn largest_packet(&self, is_ipv4: bool) -> usize {
        let longer = if is_ipv4 { 0 } else { IPV6_IS_LONGER };
        let most = self.max_packet.saturating_sub(longer).min(MAX_PACKET);
        let unit = self.framing.unit();
        (most / unit * unit).max(self.base_packet())
    }

    /// The paper's selection and least round-trip time first, with everything else as the specification
    /// of its time says and as its simulator (NS-2) has it: for experiments and for comparison.
    pub fn paper() -> Self {
        Self {
            receive_buffer: ByteCount::new(64 * 1024),
            rto_initial: Duration::from_secs(3),
            rto_min: Duration::from_secs(1),
            heartbeat_interval: Duration::from_secs(30),
            sack_delay: Duration::from_millis(200),
            selection: Selection::Paper { theta: 4.0 },
            control: Control::FirstReno,
            losses: LossRule::Reports { missing: 4 },
            policy: ChunkPolicy::LeastRtt,
            interleaving: false,
            ..Self::default()
        }
    }
}

/// There is room for a chunk with payload in any packet.
const MIN_PACKET: usize = 64;
/// What UDP over IPv6 can carry, with room to spare.
const MAX_PACKET: usize = 65_000;
/// How much longer the header of IPv6 is than that of IPv4.
const IPV6_IS_LONGER: usize = 20;

impl Default for AssociationConfig {
    /// Hawser's choices.
    fn default() -> Self {
        Self {
            port: 9,
            peer_port: 9,
            checksum: Checksum::Crc32c,
            framing: Framing::Whole,
            outbound_streams: 1024,
            inbound_streams: 1024,
            receive_buffer: ByteCount::new(8 << 20),
            names_links: false,
            send_buffer: ByteCount::new(8 << 20),
            max_message: ByteCount::new(1 << 20),
            rto_initial: Duration::from_secs(1),
            rto_min: Duration::from_millis(200),
            rto_max: Duration::from_secs(60),
            heartbeat_interval: Duration::from_secs(5),
            path_max_retransmissions: 5,
            association_max_retransmissions: 10,
            max_init_retransmissions: 8,
            begin: Begin::InTurn,
            cookie_life: Duration::from_secs(60),
            sack_delay: Duration::from_millis(25),
            selection: Selection::Answering,
            control: Control::Bbr,
            losses: LossRule::PerPath,
            policy: ChunkPolicy::Auto,
            coupled: false,
            interleaving: true,
            partial_reliability: true,
            max_packet: 1472,
        }
    }
}
