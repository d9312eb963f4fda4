use std::collections::VecDeque;

use bytes::Bytes;
use hawser_types::StreamId;

/// Datagrams given to a channel that are not in a record yet.
#[derive(Debug, Default)]
pub(crate) struct DatagramQueue {
    list: VecDeque<(StreamId, Bytes)>,
    bytes: usize,
    /// The latest record was one of datagrams.
    was_last: bool,
}

impl DatagramQueue {
    /// Takes a datagram in.
    pub(crate) fn push(&mut self, stream: StreamId, payload: Bytes) {
        self.bytes += payload.len();
        self.list.push_back((stream, payload));
    }

    /// Takes out the next datagram if it has at most `most` bytes.
    pub(crate) fn pop(&mut self, most: usize) -> Option<(StreamId, Bytes)> {
        self.list.front().filter(|(_, next)| next.len() <= most)?;
        let (stream, payload) = self.list.pop_front()?;
        self.bytes -= payload.len();
        Some((stream, payload))
    }

    /// Returns the bytes that wait.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// True if there is room for another datagram.
    pub(crate) fn has_room(&self) -> bool {
        self.bytes < MAX_BYTES && self.list.len() < MAX_COUNT
    }

    /// True if the next record should be one of datagrams. Such a record never comes twice in a row
    /// while a chunk waits, so that streams are not held up.
    pub(super) fn is_next(&mut self, chunk_waits: bool, ready: bool) -> bool {
        let chunk_first = chunk_waits && std::mem::take(&mut self.was_last);
        ready && !self.list.is_empty() && !chunk_first
    }

    /// Notes that a record of datagrams was made.
    pub(super) fn on_record(&mut self) {
        self.was_last = true;
    }
}

/// Several records, since the channel is asked again when one is written.
const MAX_BYTES: usize = 16 * 1024;
/// Empty datagrams have no bytes, and cost memory all the same.
const MAX_COUNT: usize = 1024;
