use std::time::Duration;

use hawser_sched::governor::Standing;
use hawser_types::{ByteCount, ChannelId, Instant, LinkIndex, Rate, StreamId};
use hawser_wire::{ChannelRole, TransportChoice};

use crate::transport::{Transport, TransportReason};

/// A session at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionSnapshot {
    /// Its channels, by number; an association stands there once for each of its paths.
    pub channels: Vec<ChannelSnapshot>,
    /// What carries them.
    pub transport: TransportSnapshot,
    /// The links below them, by number.
    pub links: Vec<LinkSnapshot>,
    /// Its streams, by number, at most as many as asked for.
    pub streams: Vec<StreamSnapshot>,
    /// How many streams there are.
    pub stream_count: usize,
    /// What was counted since the session began.
    pub counters: Counters,
    /// Bytes of all streams that wait for a chunk.
    pub unsent: ByteCount,
    /// Bytes kept until the peer acknowledges them.
    pub unacknowledged: ByteCount,
    /// Receive memory promised to streams beyond their own share.
    pub credit_lent: ByteCount,
}

/// What carries a session at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransportSnapshot {
    /// What the user wants.
    pub wish: TransportChoice,
    /// What bulk that this side sends goes over.
    pub in_use: Transport,
    /// The association, where there is one.
    pub association: Option<ChannelId>,
    /// What is in use is tried, to compare it with the other.
    pub trying: bool,
    /// Why that is in use, and not the other.
    pub reason: TransportReason,
    /// What TCP channels delivered when they were last measured against an association.
    pub tcp: Option<Rate>,
    /// What an association delivered when it was last measured against TCP channels.
    pub sctp: Option<Rate>,
}

/// A link of a session at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkSnapshot {
    /// The link.
    pub link: LinkIndex,
    /// What it may be used for, to send.
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
}

/// A channel at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct ChannelSnapshot {
    /// Its number.
    pub id: ChannelId,
    /// What it is for.
    pub role: ChannelRole,
    /// What carries it.
    pub transport: Transport,
    /// The link below it.
    pub link: LinkIndex,
    /// Silent against expectation.
    pub suspect: bool,
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
    /// What queues add to the delay of what comes from the peer; `None` until it is known.
    pub incoming_queue: Option<Duration>,
    /// How the peer last saw the channel; `None` until it has said so.
    pub peer: Option<PeerView>,
}

/// How a channel looks from the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerView {
    /// When the peer saw it so, by the peer's clock.
    pub stamp: Instant,
    /// What the peer has sent is not acknowledged although it should be.
    pub silent: bool,
    /// What queues add to the delay of what is sent from here; `None` where the peer does not know.
    pub queue: Option<Duration>,
    /// How fast chunks arrived there.
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

/// What a session has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Chunks cut.
    pub chunks_cut: u64,
    /// Chunks given to a channel again, since the first one failed them.
    pub chunks_again: u64,
    /// Bytes of those.
    pub bytes_again: u64,
    /// Bytes given to a second channel ahead of need.
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
