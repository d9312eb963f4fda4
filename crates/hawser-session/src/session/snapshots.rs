//! The session at one moment, for monitors.

use hawser_types::{ByteCount, Instant, StreamId};

use super::Session;
use crate::snapshot::{ChannelSnapshot, SessionSnapshot, StreamSnapshot, TunnelCounts};
use crate::stream::Stream;

impl Session {
    /// Returns the session at this moment, with at most `max_streams` of its streams, the latest.
    pub fn snapshot(&self, now: Instant, max_streams: usize) -> SessionSnapshot {
        let stream = |(id, stream): (StreamId, &Stream)| StreamSnapshot {
            id,
            metadata: stream.metadata().clone(),
            sent: ByteCount::new(stream.send().sent()),
            queued: ByteCount::new(stream.send().queued()),
            received: ByteCount::new(stream.receive().received()),
            readable: ByteCount::new(stream.receive().ready_bytes()),
            age: now.since(stream.opened_at()),
        };
        let unsent = self.streams.iter();
        let unsent = unsent.map(|(_, stream)| stream.send().queued());
        let latest = self.streams.iter().rev().take(max_streams);
        let mut streams: Vec<_> = latest.map(stream).collect();
        streams.reverse();
        SessionSnapshot {
            channels: self.channel_snapshots(now),
            scheduler: self.scheduler(),
            peer_follows_scheduler: self.peer_follows_scheduler(),
            transport: self.transports.snapshot(now, &self.channels),
            links: self.links.snapshots(now, &self.channels),
            streams,
            stream_count: self.streams.len(),
            counters: self.counters,
            unsent: ByteCount::new(unsent.sum()),
            unacknowledged: ByteCount::new(self.unacknowledged.bytes()),
            credit_lent: self.streams.lent(),
            held: self.streams.held() + ByteCount::from(self.datagrams.memory()),
            packet_scheduler: self.config.packet_scheduler,
            tunnel: TunnelCounts::default(),
            flows: Vec::new(),
            flow_count: 0,
        }
    }

    /// Returns the memory that is known to be held: what came and was not taken, what was written
    /// and is not acknowledged, what is recorded, and the state of streams that are not over.
    /// There is at most one stream for each 16 KiB of the pool, 256 at least.
    pub fn memory(&self) -> ByteCount {
        let unsent = self.streams.iter();
        let unsent: u64 = unsent.map(|(_, stream)| stream.send().queued()).sum();
        self.streams.held()
            + ByteCount::from(self.datagrams.memory())
            + ByteCount::new(unsent + self.unacknowledged.bytes())
            + self.recorder.held()
            + ByteCount::from(self.streams.len() * STREAM_STATE)
    }

    fn channel_snapshots(&self, now: Instant) -> Vec<ChannelSnapshot> {
        let mut list = Vec::with_capacity(self.channels.len());
        for channel in self.channels.iter() {
            if channel.is_association() {
                list.extend(channel.path_snapshots(now));
            } else {
                let is_silent = self.is_watching(now) && self.channels.is_silent(now, channel);
                list.push(channel.snapshot(now, is_silent));
            }
        }
        list
    }
}

/// Memory of a stream that carries nothing, whether an application has it or not.
const STREAM_STATE: usize = 2 * 1024;
