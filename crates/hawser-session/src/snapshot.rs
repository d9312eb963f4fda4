use std::net::IpAddr;
use std::time::Duration;

use hawser_sched::chunk::ChunkPolicy;
use hawser_sched::governor::Standing;
use hawser_sched::packet::PacketPolicy;
use hawser_sched::tally::FlowTally;
use hawser_types::{ByteCount, ChannelId, Instant, LinkIndex, Rate, StreamId};
use hawser_wire::{ChannelRole, TransportChoice};

use crate::transport::{Transport, TransportReason};

/// A session at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionSnapshot {
    /// Its channels, by number; an association stands there once for each of its paths.
    pub channels: Vec<ChannelSnapshot>,
    /// The policy that places what this side sends.
    pub scheduler: ChunkPolicy,
    /// True if the far end places what it sends as this client's user wants; `None` for a gateway,
    /// and until the far end has said so.
    pub peer_follows_scheduler: Option<bool>,
    /// Transport that chunks go over.
    pub transport: TransportSnapshot,
    /// The links below them, by number.
    pub links: Vec<LinkSnapshot>,
    /// Its streams, by number, at most as many as asked for.
    pub streams: Vec<StreamSnapshot>,
    /// Number of streams.
    pub stream_count: usize,
    /// Counts since the session began.
    pub counters: Counters,
    /// Bytes of all streams that wait for a chunk.
    pub unsent: ByteCount,
    /// Bytes kept until the peer acknowledges them.
    pub unacknowledged: ByteCount,
    /// Receive memory promised to streams beyond their own share.
    pub credit_lent: ByteCount,
    /// Memory of what came and was not read, streams' and datagrams: whole read buffers where
    /// slices of them wait. Datagrams that wait to be sent are in it too.
    pub held: ByteCount,
    /// The policy that places packets which this side sends.
    pub packet_scheduler: PacketPolicy,
    /// Packets of tunnels, which the driver counts.
    pub tunnel: TunnelCounts,
    /// Flows of packets over an association that have moved something lately, the latest first, at
    /// most as many as streams were asked for. The driver has them.
    pub flows: Vec<PacketFlow>,
    /// Number of those flows.
    pub flow_count: usize,
}

/// A flow of packets at one moment. Packets of one flow with several markings are one here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketFlow {
    /// Its two ends.
    pub ends: FlowEnds,
    /// Differentiated services code point of what this end sends, or of what it receives if it
    /// sends nothing.
    pub dscp: u8,
    /// Time since its first packet.
    pub age: Duration,
    /// Time since its latest packet.
    pub idle: Duration,
    /// Its counts.
    pub tally: FlowTally,
}

/// The two ends of a flow of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowEnds {
    /// Protocol behind the IP headers.
    pub protocol: u8,
    /// Inner address and port at the client; port 0 where the protocol has none. Of echoes the
    /// port is their identifier.
    pub client: (IpAddr, u16),
    /// The other end, likewise.
    pub remote: (IpAddr, u16),
}

/// Packets of a session's tunnels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TunnelCounts {
    /// Packets given to an association.
    pub over_association: u64,
    /// Packets sent as datagrams beside streams, since no association answered.
    pub over_channels: u64,
    /// Packets received over an association.
    pub received: u64,
    /// Packets among them that came after they had counted as lost, over the present association.
    pub late: u64,
    /// Packets that the tunnel of the present association has dropped from its queue, and packets
    /// that neither an association nor the session has taken.
    pub dropped: u64,
    /// Packets of a gateway that its client has not taken: none of its flows, or not for it.
    pub refused: u64,
}

/// Transport of a session at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransportSnapshot {
    /// The user's choice.
    pub wish: TransportChoice,
    /// Transport of the bulk that this side sends.
    pub in_use: Transport,
    /// The association, where there is one.
    pub association: Option<ChannelId>,
    /// The transport in use is on trial, to be compared with the other one.
    pub trying: bool,
    /// Reason for the transport in use.
    pub reason: TransportReason,
    /// Rate of TCP channels when they were last measured against an association.
    pub tcp: Option<Rate>,
    /// Rate of an association when it was last measured against TCP channels.
    pub sctp: Option<Rate>,
}

/// A link of a session at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkSnapshot {
    /// The link.
    pub link: LinkIndex,
    /// Permission to send over it.
    pub standing: Standing,
    /// The user wants it used ahead of others, to send.
    pub preferred: bool,
    /// Links with the same number share a bottleneck, as far as what is sent here shows it.
    pub bottleneck: Option<u8>,
    /// Bytes of records sent, headers, tags and repetitions included.
    pub sent: ByteCount,
    /// Bytes of records received, likewise.
    pub received: ByteCount,
    /// Payload that the peer holds since this link brought it.
    pub delivered: ByteCount,
    /// Payload that another link brought first, although this one was given it first.
    pub late: ByteCount,
    /// For how long the peer's readers have waited for this link, other links' data at hand.
    pub blocked: Duration,
    /// Time since the last sign of life of a link that has lost its channels by silence; `None`
    /// once it has a channel again.
    pub silent_for: Option<Duration>,
}

/// A channel at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct ChannelSnapshot {
    /// Its number.
    pub id: ChannelId,
    /// Kind of chunks that it is for.
    pub role: ChannelRole,
    /// Transport of its records.
    pub transport: Transport,
    /// The link below it.
    pub link: LinkIndex,
    /// Silent against expectation.
    pub suspect: bool,
    /// Time since the last sign of life, where one is overdue. Unlike `suspect` it is there for the
    /// last link too, which goes on being used.
    pub silent_for: Option<Duration>,
    /// Time since the last sign of life; `None` where none was noticed yet.
    pub unheard_for: Option<Duration>,
    /// Smoothed round-trip time.
    pub rtt: Duration,
    /// Delivery rate.
    pub rate: Rate,
    /// Congestion window.
    pub congestion_window: ByteCount,
    /// Chunk bytes that the peer's session has not acknowledged.
    pub in_flight: ByteCount,
    /// Chunk bytes sent, those sent again included.
    pub sent: ByteCount,
    /// Chunk bytes received, duplicates included.
    pub received: ByteCount,
    /// TCP segments sent again.
    pub retransmissions: u64,
    /// TCP segments with data that the peer has received; `None` where the kernel does not say.
    pub segments_delivered: Option<u64>,
    /// Delay that queues add on the way from the peer; `None` until it is known.
    pub incoming_queue: Option<Duration>,
    /// The channel as the peer last saw it; `None` until it has said so.
    pub peer: Option<PeerView>,
}

/// A channel as the other end sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerView {
    /// Time of the peer's report, by the peer's clock.
    pub stamp: Instant,
    /// Data that the peer has sent is not acknowledged although it should be.
    pub silent: bool,
    /// Delay that queues add on the way to the peer; `None` where the peer does not know.
    pub queue: Option<Duration>,
    /// Rate at which chunks arrived there.
    pub rate: Rate,
}

/// A stream at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamSnapshot {
    /// Its number.
    pub id: StreamId,
    /// The metadata that it was opened with.
    pub metadata: bytes::Bytes,
    /// Bytes cut into chunks.
    pub sent: ByteCount,
    /// Bytes that wait for a chunk.
    pub queued: ByteCount,
    /// Bytes that arrived, each counted once.
    pub received: ByteCount,
    /// Bytes that can be read.
    pub readable: ByteCount,
    /// Time since it was opened.
    pub age: Duration,
}

/// Counts of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Chunks cut.
    pub chunks_cut: u64,
    /// Chunks given to a channel again, since the first one failed them.
    pub chunks_again: u64,
    /// Bytes of those.
    pub bytes_again: u64,
    /// Bytes given to a second channel ahead of need, and bytes of copies that associations sent of
    /// what was in flight on their paths.
    pub bytes_duplicated: u64,
    /// Chunks that came although they were there already.
    pub duplicates_received: u64,
    /// Channels that fell silent.
    pub suspects: u64,
    /// Channels that were lost.
    pub channels_lost: u64,
    /// Streams opened by either side.
    pub streams_opened: u64,
    /// Streams reset by either side.
    pub streams_reset: u64,
    /// Datagrams sent.
    pub datagrams_sent: u64,
    /// Datagrams that came.
    pub datagrams_received: u64,
    /// Datagrams that came or were to be sent and got no further.
    pub datagrams_dropped: u64,
}
