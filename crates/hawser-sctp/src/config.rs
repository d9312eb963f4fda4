use std::time::Duration;

use hawser_sched::chunk::ChunkPolicy;
use hawser_types::ByteCount;
use hawser_wire::sctp::{Framing, StreamNumber};

/// Configuration of an association.
#[derive(Clone, Debug, PartialEq)]
pub struct AssociationConfig {
    /// This end's SCTP port.
    pub port: u16,
    /// SCTP port of the peer, where this end begins the association.
    pub peer_port: u16,
    /// Error detection of packets.
    pub checksum: Checksum,
    /// Framing of packets, which both ends have to know. [`Framing::Compact`] needs an endpoint
    /// whose packets are all sealed with keys for one association, begun by one end; it never
    /// restarts.
    pub framing: Framing,
    /// Outbound streams to ask for, from 1; the peer may allow fewer.
    pub outbound_streams: u16,
    /// Streams that the peer may send on, from 1.
    pub inbound_streams: u16,
    /// Maximum of received data that waits for the reader or for missing chunks; at least
    /// [`Self::MIN_BUFFER`].
    pub receive_buffer: ByteCount,
    /// Heartbeats tell the peer which of this host's links they leave by. For peers that cannot
    /// derive it from addresses, and under a seal only.
    pub announces_links: bool,
    /// Maximum of data that waits to be sent or acknowledged; at least [`Self::MIN_BUFFER`]. Small
    /// messages of streams with nothing waiting may exceed it by a quarter.
    pub send_buffer: ByteCount,
    /// Maximum length of a message.
    pub max_message: ByteCount,
    /// RTO.Initial.
    pub rto_initial: Duration,
    /// RTO.Min.
    pub rto_min: Duration,
    /// RTO.Max.
    pub rto_max: Duration,
    /// HB.Interval: idle time after which a path is probed.
    pub heartbeat_interval: Duration,
    /// Path.Max.Retrans: with more consecutive time-outs than this, a path becomes inactive.
    pub path_max_retransmissions: u32,
    /// Association.Max.Retrans: with more time-outs than this on every path, the association is
    /// lost.
    pub association_max_retransmissions: u32,
    /// Max.Init.Retransmits.
    pub max_init_retransmissions: u32,
    /// Transmission of INIT and COOKIE ECHO.
    pub connect: ConnectStrategy,
    /// Valid.Cookie.Life.
    pub cookie_life: Duration,
    /// SACK.Delay: maximum wait for a second packet before an acknowledgement.
    pub sack_delay: Duration,
    /// Rule that selects the paths for data.
    pub selection: Selection,
    /// Congestion control of each path.
    pub control: Control,
    /// Loss detection.
    pub losses: LossRule,
    /// Policy that assigns chunks to paths.
    pub policy: ChunkPolicy,
    /// I-DATA is offered (RFC 8260), so that long messages do not delay others.
    pub interleaving: bool,
    /// FORWARD-TSN is offered (RFC 3758), so that messages can be abandoned.
    pub partial_reliability: bool,
    /// Stream of messages that the owner places ([`Association::send_over`]). Both ends have to
    /// know it, and use it for nothing else. It needs I-DATA and FORWARD-TSN.
    ///
    /// [`Association::send_over`]: crate::Association::send_over
    pub placed_stream: Option<StreamNumber>,
    /// Maximum packet size that paths over IPv4 are probed for, with the SCTP header; over IPv6 it
    /// is 20 bytes less, for the longer IP header. A value below [`Self::BASE_PACKET`], for
    /// experiments, is used on every path without probing.
    pub max_packet: usize,
}

/// Error detection of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// CRC-32c.
    Crc32c,
    /// The layer below detects errors; the checksum field is zero (RFC 9653).
    LowerLayer,
}

/// How this end repeats handshake packets over its routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectStrategy {
    /// One route after the other, again after RTO.Initial. Source: RFC 9260 §5.1, §6.3.
    InTurn,
    /// All routes at once, repeated soon: for a peer that expects the association, but may be told
    /// of it shortly after the first packet arrives.
    AtOnce,
}

/// Rule that selects the pairs of addresses that carry data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Selection {
    /// Every pair that answers; policies avoid slow ones.
    Answering,
    /// The paper's rule: at most max(m, n) pairs in order of round-trip time, none slower than θ
    /// times the fastest, and every address once where possible. Source: SCTP aggregation §3.2.
    Paper {
        /// θ, from 1.
        theta: f64,
    },
}

/// Loss detection, and the measures that go with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LossRule {
    /// By later packets of the same path, so that paths of different delay never make each other's
    /// chunks look lost; with probes, and with copies over faster paths. Source: RFC 9002 §6.1.
    #[default]
    PerPath,
    /// By missing reports, regardless of the paths: for experiments. Windows grow only when the
    /// cumulative TSN moves, and nothing is probed, copied or undone.
    ///
    /// Source: RFC 2960 §7.2; RFC 4460 §2.8 (only newly acknowledged chunks report others as
    /// missing) and §2.26 (one fast retransmission for each chunk).
    Reports {
        /// Number of reports that make a chunk lost; four in RFC 2960 §7.2.4.
        missing: u32,
    },
}

/// Congestion control algorithm of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// As SCTP specifies it, from four packets. Source: RFC 9260 §7.
    Reno,
    /// As SCTP's first edition has it: from two packets, and never below two except after a
    /// time-out. Source: RFC 2960 §7.2.
    FirstReno,
    /// Source: RFC 9438, with HyStart++ (RFC 9406).
    Cubic,
    /// By measured rate and round-trip time. Source: draft-ietf-ccwg-bbr.
    Bbr,
}

impl AssociationConfig {
    /// Minimum buffer, for either direction.
    pub const MIN_BUFFER: ByteCount = ByteCount::new(64 * 1024);
    /// Packet size assumed for every path: the base of PLPMTUD (RFC 8899), with the SCTP header.
    pub const BASE_PACKET: usize = 1200;

    /// Returns the stream of placed messages, where the association has what they need.
    pub(crate) fn agreed_placed_stream(
        &self,
        interleaving: bool,
        partial_reliability: bool,
    ) -> Option<StreamNumber> {
        self.placed_stream
            .filter(|_| interleaving && partial_reliability)
    }

    /// Returns the packet size assumed for every path.
    pub(crate) fn base_packet(&self) -> usize {
        let unit = self.framing.unit();
        let most = self.max_packet / unit * unit;
        most.clamp(MIN_PACKET, Self::BASE_PACKET)
    }

    /// Returns the maximum packet size that a path is probed for, not less than the base.
    pub(crate) fn largest_packet(&self, is_ipv4: bool) -> usize {
        let longer = if is_ipv4 { 0 } else { IPV6_IS_LONGER };
        let most = self.max_packet.saturating_sub(longer).min(MAX_PACKET);
        let unit = self.framing.unit();
        (most / unit * unit).max(self.base_packet())
    }

    /// Returns the paper's configuration: its selection and least round-trip time first, with all
    /// else as specified at its time and in its simulator (NS-2). For experiments and comparison.
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

/// Minimum packet size; any packet has room for a chunk with payload.
const MIN_PACKET: usize = 64;
/// Maximum packet size: what UDP over IPv6 can carry, with a margin.
const MAX_PACKET: usize = 65_000;
/// Difference between the IPv6 and IPv4 header sizes.
const IPV6_IS_LONGER: usize = 20;

impl Default for AssociationConfig {
    /// Returns Hawser's defaults.
    fn default() -> Self {
        Self {
            port: 9,
            peer_port: 9,
            checksum: Checksum::Crc32c,
            framing: Framing::Whole,
            outbound_streams: 1024,
            inbound_streams: 1024,
            receive_buffer: ByteCount::new(8 << 20),
            announces_links: false,
            send_buffer: ByteCount::new(8 << 20),
            max_message: ByteCount::new(1 << 20),
            rto_initial: Duration::from_secs(1),
            rto_min: Duration::from_millis(200),
            rto_max: Duration::from_secs(60),
            heartbeat_interval: Duration::from_secs(5),
            path_max_retransmissions: 5,
            association_max_retransmissions: 10,
            max_init_retransmissions: 8,
            connect: ConnectStrategy::InTurn,
            cookie_life: Duration::from_secs(60),
            sack_delay: Duration::from_millis(25),
            selection: Selection::Answering,
            control: Control::Bbr,
            losses: LossRule::PerPath,
            policy: ChunkPolicy::Auto,
            interleaving: true,
            partial_reliability: true,
            placed_stream: None,
            max_packet: 1472,
        }
    }
}
