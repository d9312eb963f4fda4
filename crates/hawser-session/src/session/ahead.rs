//! Limits of streams that nobody has opened yet, so that a new stream's first flight may be a
//! large one.

use std::collections::BTreeMap;

use hawser_types::StreamId;

use super::{Session, State};
use crate::stream::ReceiveStream;

/// What both sides know of streams to come.
#[derive(Debug)]
pub(super) struct Ahead {
    /// The receiving directions of the streams that the peer will open next.
    receive: BTreeMap<StreamId, ReceiveStream>,
    /// The lowest number that the peer may open and that was never in `receive`.
    next: StreamId,
    /// What the peer allows on streams that this side has yet to open.
    limits: BTreeMap<StreamId, u64>,
}

impl Ahead {
    /// `first`: the number of the first stream that the peer opens.
    pub(super) fn new(first: StreamId) -> Self {
        Self {
            receive: BTreeMap::new(),
            next: first,
            limits: BTreeMap::new(),
        }
    }

    /// The limit to tell the peer, of a stream that is prepared.
    pub(super) fn limit_to_tell(&self, id: StreamId) -> Option<u64> {
        self.receive.get(&id).map(ReceiveStream::limit)
    }

    /// Streams whose limits the peer was told.
    pub(super) fn told(&self) -> impl Iterator<Item = StreamId> {
        let told = self.receive.iter().filter(|(_, stream)| stream.has_moved());
        told.map(|(id, _)| *id)
    }

    /// The peer allows `limit` on a stream; `next` is the one that this side opens next. What is
    /// too far ahead is not kept.
    pub(super) fn on_credit(&mut self, next: StreamId, id: StreamId, limit: u64) {
        if (next.value()..next.value() + KEPT_AHEAD * 2).contains(&id.value()) {
            let known = self.limits.entry(id).or_default();
            *known = limit.max(*known);
        }
    }

    /// What the peer allows on a stream that this side opens now, if it has said so.
    pub(super) fn take_limit(&mut self, id: StreamId) -> Option<u64> {
        self.limits.remove(&id)
    }
}

impl Session {
    /// Lends the peer's next streams what they may begin with.
    pub(super) fn prepare_streams(&mut self) {
        if self.state != State::Open || !self.commands.said_hello {
            return;
        }
        while self.ahead.receive.len() < PREPARED {
            let id = self.ahead.next;
            self.ahead.next = StreamId::new(id.value() + 2);
            self.ahead.receive.insert(id, ReceiveStream::new(id));
        }
        let mut moved = false;
        for (id, stream) in &mut self.ahead.receive {
            if stream.grow_ahead(&mut self.pool) {
                self.credit_due.insert(*id);
                moved = true;
            }
        }
        if moved {
            self.wake_quickest();
        }
    }

    /// The receiving direction of a stream that the peer opens now.
    pub(super) fn take_prepared(&mut self, id: StreamId) -> ReceiveStream {
        let after = StreamId::new(id.value() + 2);
        self.ahead.next = self.ahead.next.max(after);
        let prepared = self.ahead.receive.remove(&id);
        let mut receive = prepared.unwrap_or_else(|| ReceiveStream::new(id));
        if receive.grow_at_opening(&mut self.pool) {
            self.owe_credit(id);
        }
        receive
    }

    /// The peer will never open this stream.
    pub(super) fn drop_prepared(&mut self, id: StreamId) {
        if let Some(mut stream) = self.ahead.receive.remove(&id) {
            stream.close(&mut self.pool);
            self.credit_due.remove(&id);
        }
    }
}

/// How many streams of the peer are prepared.
const PREPARED: usize = 2;
/// For how many streams that are not open a limit is kept. Part of the protocol.
const KEPT_AHEAD: u64 = 16;
