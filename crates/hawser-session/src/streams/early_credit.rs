//! Limits of streams that are not open yet, so that a new stream's first flight may be a large one.

use std::collections::BTreeMap;

use hawser_types::StreamId;

use crate::stream::{Pool, ReceiveStream};

/// Credit granted before the stream is opened, in both directions.
#[derive(Debug)]
pub(crate) struct EarlyCredit {
    /// Receiving directions of the streams that the peer will open next.
    prepared: BTreeMap<StreamId, ReceiveStream>,
    /// Lowest number that the peer may open and that was never in `prepared`.
    next: StreamId,
    /// Limits that the peer set for streams that this side has yet to open.
    limits: BTreeMap<StreamId, u64>,
}

impl EarlyCredit {
    /// `first`: the number of the first stream that the peer opens.
    pub(super) fn new(first: StreamId) -> Self {
        Self {
            prepared: BTreeMap::new(),
            next: first,
            limits: BTreeMap::new(),
        }
    }

    /// Lends the peer's next streams what they may begin with. Returns those whose limits moved.
    pub(super) fn prepare(&mut self, pool: &mut Pool) -> impl Iterator<Item = StreamId> {
        while self.prepared.len() < PREPARED {
            let id = self.next;
            self.next = StreamId::new(id.value() + 2);
            self.prepared.insert(id, ReceiveStream::new(id));
        }
        let streams = self.prepared.iter_mut();
        streams.filter_map(|(id, stream)| stream.grow_early(pool).then_some(*id))
    }

    /// Returns the receiving direction of a stream that the peer opens now.
    pub(super) fn take(&mut self, id: StreamId) -> ReceiveStream {
        let after = StreamId::new(id.value() + 2);
        self.next = self.next.max(after);
        let prepared = self.prepared.remove(&id);
        prepared.unwrap_or_else(|| ReceiveStream::new(id))
    }

    /// Drops a stream that the peer will never open. True if it was prepared.
    pub(super) fn drop_stream(&mut self, id: StreamId, pool: &mut Pool) -> bool {
        let prepared = self.prepared.remove(&id);
        prepared.is_some_and(|mut stream| {
            stream.close(pool);
            true
        })
    }

    /// Returns the limit of a stream that is prepared, to tell the peer.
    pub(super) fn limit(&self, id: StreamId) -> Option<u64> {
        self.prepared.get(&id).map(ReceiveStream::limit)
    }

    /// Returns the streams whose limits the peer was told.
    pub(super) fn told(&self) -> impl Iterator<Item = StreamId> {
        let told = self
            .prepared
            .iter()
            .filter(|(_, stream)| stream.has_moved());
        told.map(|(id, _)| *id)
    }

    /// Keeps the peer's limit for a stream that this side has yet to open; `next` is the one that
    /// it opens next. The limit of a stream that is too far ahead is not kept.
    pub(super) fn on_credit(&mut self, next: StreamId, id: StreamId, limit: u64) {
        if (next.value()..next.value() + KEPT_STREAMS * 2).contains(&id.value()) {
            let known = self.limits.entry(id).or_default();
            *known = limit.max(*known);
        }
    }

    /// Takes out the peer's limit for a stream that this side opens now.
    pub(super) fn take_limit(&mut self, id: StreamId) -> Option<u64> {
        self.limits.remove(&id)
    }
}

/// Streams of the peer that are prepared.
const PREPARED: usize = 2;
/// Streams not open yet for which a limit is kept. Part of the protocol.
const KEPT_STREAMS: u64 = 16;
