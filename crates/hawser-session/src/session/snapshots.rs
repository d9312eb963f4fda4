//! The session at one moment, for those who watch it.

use hawser_types::{ByteCount, Instant, StreamId};

use super::Session;
use crate::channel::Channel;
use crate::snapshot::{ChannelSnapshot, SessionSnapshot, StreamSnapshot};
use crate::stream::Stream;

impl Session {
    /// The session at this moment, with at most `max_streams` of its streams, the latest.
    pub fn snapshot(&self, now: Instant, max_streams: usize) -> SessionSnapshot {
        let stream = |(id, stream): (&StreamId, &Stream)| StreamSnapshot {
            id: *id,
            metadata: stream.metadata().clone(),
            sent: ByteCount::new(stream.send.sent()),
            queued: ByteCount::new(stream.send.queued()),
            received: ByteCount::new(stream.receive.received()),
            readable: ByteCount::new(stream.receive.reassembly.ready_bytes()),
            age: now.since(stream.opened_at),
        };
        let unsent = self.streams.values().map(|stream| stream.send.queued());
        let latest = self.streams.iter().rev().take(max_streams);
        let mut streams: Vec<_> = latest.map(stream).collect();
        streams.reverse();
        SessionSnapshot {
            channels: self.channel_snapshots(),
            transport: self.transport_snapshot(now),
            links: self.link_snapshots(),
            streams,
            stream_count: self.streams.len(),
            counters: self.counters,
            unsent: ByteCount::new(unsent.sum()),
            unacknowledged: ByteCount::new(self.ledger.bytes()),
            credit_lent: ByteCount::new(self.pool.lent()),
        }
    }

    fn channel_snapshots(&self) -> Vec<ChannelSnapshot> {
        let mut list = Vec::with_capacity(self.channels.len());
        for channel in self.channels.values() {
            match channel.spec.is_association() {
                true => list.extend(channel.path_snapshots()),
                false => list.push(ChannelSnapshot::of(channel)),
            }
        }
        list
    }
}

impl ChannelSnapshot {
    fn of(channel: &Channel) -> Self {
        let kernel = channel.path.latest();
        Self {
            id: channel.spec.id,
            role: channel.spec.role,
            transport: channel.spec.transport(),
            link: channel.spec.link,
            suspect: channel.suspect_since.is_some(),
            rtt: channel.path.rtt(),
            rate: channel.path.rate(),
            congestion_window: kernel.congestion_window,
            in_flight: ByteCount::new(channel.in_flight),
            sent: ByteCount::new(channel.payload_sent),
            received: ByteCount::new(channel.payload_received),
            retransmissions: kernel.retransmissions,
            segments_delivered: kernel.delivered,
            incoming_queue: channel.path.one_way().queue(),
            peer: channel.peer,
        }
    }
}
