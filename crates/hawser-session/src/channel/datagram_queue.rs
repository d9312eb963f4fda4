use std::collections::VecDeque;

use bytes::Bytes;
use hawser_types::StreamId;
use hawser_wire::datagram_length;

/// Datagrams given to a channel that are not in a record yet.
#[derive(Debug, Default)]
pub(crate) struct DatagramQueue {
    list: VecDeque<(StreamId, Bytes)>,
    /// The bytes of their frames.
    bytes: usize,
    /// The latest record was one of datagrams.
    was_last: bool,
}

impl DatagramQueue {
    /// Takes a datagram in.
    pub(crate) fn push(&mut self, stream: StreamId, payload: Bytes) {
        self.bytes += datagram_length(stream, payload.len());
        self.list.push_back((stream, payload));
    }

    /// Returns the bytes of the next datagram's frame; 0 if there is none.
    pub(crate) fn next_length(&self) -> usize {
        let next = self.list.front();
        next.map_or(0, |(stream, payload)| {
            datagram_length(*stream, payload.len())
        })
    }

    /// Takes out the next datagram if its frame has at most `most` bytes.
    pub(crate) fn pop(&mut self, most: usize) -> Option<(StreamId, Bytes)> {
        let length = self.next_length();
        if length > most {
            return None;
        }
        let next = self.list.pop_front()?;
        self.bytes -= length;
        Some(next)
    }

    /// Returns the bytes of the frames that wait.
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
/// A frame of few bytes costs more memory than these.
const MAX_COUNT: usize = 1024;
