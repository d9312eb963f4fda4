use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use hawser_net::client::LinkStatus;
use hawser_session::{ChannelSnapshot, SessionSnapshot, StreamSnapshot, Transport};
use hawser_types::{ByteCount, ChannelId, LinkIndex, Rate, StreamId};

/// A connection at one moment.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ConnectionStats {
    /// Links that the connection uses or has used, by number.
    pub paths: Vec<PathStats>,
    /// Channels, by number; an association is listed once for each of its paths.
    pub channels: Vec<ChannelStats>,
    /// Streams, by number: the latest 1024 of those that are open.
    pub streams: Vec<StreamStats>,
    /// Number of streams that are open.
    pub open_streams: usize,
    /// Transport of bulk data that this side sends.
    pub transport: Transport,
    /// Bytes of all streams that were written and not sent yet.
    pub unsent: ByteCount,
    /// Bytes sent that the peer has not acknowledged.
    pub unacknowledged: ByteCount,
    /// Bytes sent again because a channel failed.
    pub sent_again: ByteCount,
    /// Bytes sent a second time over another channel as a precaution.
    pub duplicated: ByteCount,
    /// Datagrams sent.
    pub datagrams_sent: u64,
    /// Datagrams received.
    pub datagrams_received: u64,
    /// Datagrams that were received or queued for sending, and then dropped.
    pub datagrams_dropped: u64,
    /// Channels that were lost since the connection began.
    pub channels_lost: u64,
}

/// A link of a connection at one moment.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PathStats {
    /// Number of the link, as the connecting side has it.
    pub link: LinkIndex,
    /// Name of the interface; `None` at the listening side, which sees the peer's links only.
    pub name: Option<String>,
    /// Address of this side.
    pub local: Option<IpAddr>,
    /// Address of the peer that the link's channels use; `None` at the listening side.
    pub remote: Option<SocketAddr>,
    /// Number of channels that are open.
    pub channels: usize,
    /// Shortest of the channels' smoothed round-trip times; `None` until one is known.
    pub rtt: Option<Duration>,
    /// Delivery rate of the channels together.
    pub rate: Rate,
    /// Bytes of chunks that the peer has not acknowledged.
    pub in_flight: ByteCount,
    /// Bytes of records sent, including headers, tags and retransmissions.
    pub sent: ByteCount,
    /// Bytes of records received, likewise.
    pub received: ByteCount,
    /// Every channel lacks a due answer: data in flight is also sent over other links.
    pub suspect: bool,
}

/// A channel of a connection at one moment.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ChannelStats {
    /// Number of the channel.
    pub id: ChannelId,
    /// Number of the link below it.
    pub link: LinkIndex,
    /// TCP connection or path of an association.
    pub transport: Transport,
    /// Smoothed round-trip time; zero until it is known.
    pub rtt: Duration,
    /// Delivery rate.
    pub rate: Rate,
    /// Congestion window.
    pub congestion_window: ByteCount,
    /// Bytes of chunks that the peer has not acknowledged.
    pub in_flight: ByteCount,
    /// Bytes of chunks sent, including those sent again.
    pub sent: ByteCount,
    /// Bytes of chunks received, including duplicates.
    pub received: ByteCount,
    /// Packets that the transport has retransmitted.
    pub retransmissions: u64,
    /// The channel lacks a due answer.
    pub suspect: bool,
}

/// A stream of a connection at one moment.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct StreamStats {
    /// Number of the stream.
    pub id: StreamId,
    /// The opening that the opening side has sent.
    pub opening: Bytes,
    /// Bytes that were given to channels.
    pub sent: ByteCount,
    /// Bytes that were written and wait for a channel.
    pub queued: ByteCount,
    /// Bytes that arrived, each counted once.
    pub received: ByteCount,
    /// Bytes that can be read.
    pub readable: ByteCount,
    /// Time since the stream was opened.
    pub age: Duration,
}

impl ConnectionStats {
    pub(crate) fn new(
        session: &SessionSnapshot,
        addresses: &BTreeMap<(ChannelId, LinkIndex), IpAddr>,
        links: &[LinkStatus],
    ) -> Self {
        let counters = &session.counters;
        // Bytes that arrived before the client named the link are counted for no link.
        let known = session.links.iter().map(|link| link.link);
        let known = known.filter(|link| link.value() != 0);
        let used = session.channels.iter().map(|channel| channel.link);
        let numbers: BTreeSet<LinkIndex> = known.chain(used).collect();
        let path = |link| PathStats::new(link, session, addresses, links);
        Self {
            paths: numbers.into_iter().map(path).collect(),
            channels: session.channels.iter().map(ChannelStats::new).collect(),
            streams: session.streams.iter().map(StreamStats::new).collect(),
            open_streams: session.stream_count,
            transport: session.transport.in_use,
            unsent: session.unsent,
            unacknowledged: session.unacknowledged,
            sent_again: ByteCount::new(counters.bytes_again),
            duplicated: ByteCount::new(counters.bytes_duplicated),
            datagrams_sent: counters.datagrams_sent,
            datagrams_received: counters.datagrams_received,
            datagrams_dropped: counters.datagrams_dropped,
            channels_lost: counters.channels_lost,
        }
    }
}

impl PathStats {
    fn new(
        link: LinkIndex,
        session: &SessionSnapshot,
        addresses: &BTreeMap<(ChannelId, LinkIndex), IpAddr>,
        links: &[LinkStatus],
    ) -> Self {
        let here = |channel: &&ChannelSnapshot| channel.link == link;
        let channels: Vec<_> = session.channels.iter().filter(here).collect();
        let status = links.iter().find(|status| status.link.index == link);
        let booked = session.links.iter().find(|booked| booked.link == link);
        let rtts = channels.iter().map(|channel| channel.rtt);
        Self {
            link,
            name: status.map(|status| status.link.name.clone()),
            local: addresses
                .iter()
                .find(|((_, at), _)| *at == link)
                .map(|(_, address)| *address),
            remote: status.and_then(|status| status.remote),
            channels: channels.len(),
            rtt: rtts.filter(|rtt| !rtt.is_zero()).min(),
            rate: channels.iter().map(|channel| channel.rate).sum(),
            in_flight: channels.iter().map(|channel| channel.in_flight).sum(),
            sent: booked.map_or(ByteCount::ZERO, |booked| booked.sent),
            received: booked.map_or(ByteCount::ZERO, |booked| booked.received),
            suspect: !channels.is_empty() && channels.iter().all(|channel| channel.suspect),
        }
    }
}

impl ChannelStats {
    fn new(channel: &ChannelSnapshot) -> Self {
        Self {
            id: channel.id,
            link: channel.link,
            transport: channel.transport,
            rtt: channel.rtt,
            rate: channel.rate,
            congestion_window: channel.congestion_window,
            in_flight: channel.in_flight,
            sent: channel.sent,
            received: channel.received,
            retransmissions: channel.retransmissions,
            suspect: channel.suspect,
        }
    }
}

impl StreamStats {
    fn new(stream: &StreamSnapshot) -> Self {
        Self {
            id: stream.id,
            opening: stream.metadata.clone(),
            sent: stream.sent,
            queued: stream.queued,
            received: stream.received,
            readable: stream.readable,
            age: stream.age,
        }
    }
}
