use std::collections::BTreeMap;

use bytes::Bytes;
use hawser_types::StreamId;

use super::wire::End;

/// Bytes written to streams and read from them; a reader gets what the writer wrote.
#[derive(Debug, Default)]
pub(super) struct Contents {
    directions: BTreeMap<(End, StreamId), Direction>,
}

/// One direction of a stream.
#[derive(Clone, Copy, Debug, Default)]
struct Direction {
    written: u64,
    /// Bytes read, and the position behind the last of them.
    read: u64,
    next: u64,
    is_finished: bool,
    /// An end was given up or reset, so that not everything has to arrive.
    is_cut_short: bool,
    is_unordered: bool,
    end_was_read: bool,
}

impl Contents {
    /// Begins both directions of a stream, unless they are known.
    pub(super) fn begin(&mut self, id: StreamId) {
        for end in End::BOTH {
            self.directions.entry((end, id)).or_default();
        }
    }

    /// Returns the streams that there ever were, by number.
    pub(super) fn streams(&self) -> impl Iterator<Item = StreamId> {
        let client = |((end, id), _): (&(End, StreamId), _)| (*end == End::Client).then_some(*id);
        self.directions.iter().filter_map(client)
    }

    /// Returns the bytes that `writer` writes next.
    pub(super) fn to_write(&self, writer: End, id: StreamId, length: usize) -> Bytes {
        let direction = self.directions.get(&(writer, id));
        let at = direction.map_or(0, |direction| direction.written);
        let start = pattern_at(writer, id, at);
        Bytes::from_static(&PATTERN).slice(start..start + length.min(MAX_PATTERN))
    }

    /// Notes that the session took so many bytes.
    pub(super) fn on_written(&mut self, writer: End, id: StreamId, length: usize) {
        self.change(writer, id, |it| it.written += length as u64);
    }

    /// Notes that `writer` ended its direction.
    pub(super) fn on_finished(&mut self, writer: End, id: StreamId) {
        self.change(writer, id, |it| it.is_finished = true);
    }

    /// Notes that not everything that `writer` wrote has to arrive.
    pub(super) fn cut_short(&mut self, writer: End, id: StreamId) {
        self.change(writer, id, |it| it.is_cut_short = true);
    }

    /// Notes that what `writer` writes is read out of order.
    pub(super) fn on_unordered(&mut self, writer: End, id: StreamId) {
        self.change(writer, id, |it| it.is_unordered = true);
    }

    /// Checks what was read of what `writer` wrote.
    pub(super) fn on_read(&mut self, writer: End, id: StreamId, at: u64, bytes: &[u8]) {
        let Some(it) = self.directions.get_mut(&(writer, id)) else {
            panic!("{id} was read and never opened");
        };
        let end = at + bytes.len() as u64;
        assert!(
            end <= it.written,
            "{id}: read up to {end} of {}",
            it.written
        );
        assert!(
            it.is_unordered || at == it.next,
            "{id}: read at {at} out of order"
        );
        let start = pattern_at(writer, id, at);
        assert!(
            bytes == &PATTERN[start..start + bytes.len()],
            "{id}: other bytes at {at}"
        );
        it.read += bytes.len() as u64;
        it.next = end;
    }

    /// Notes that the reader came to the end of what `writer` wrote.
    pub(super) fn on_end_read(&mut self, writer: End, id: StreamId) {
        self.change(writer, id, |it| {
            assert!(
                it.is_cut_short || it.is_finished,
                "{id}: an end from nowhere"
            );
            let is_whole = it.is_cut_short || it.read == it.written;
            assert!(
                is_whole,
                "{id}: the end came after {} of {}",
                it.read, it.written
            );
            it.end_was_read = true;
        });
    }

    /// Returns a direction that is finished and whose end was not read, although it should be.
    pub(super) fn missing(&self) -> Option<(End, StreamId)> {
        let is_missing = |it: &Direction| it.is_finished && !it.is_cut_short && !it.end_was_read;
        let mut directions = self.directions.iter();
        directions.find_map(|(key, it)| is_missing(it).then_some(*key))
    }

    fn change(&mut self, writer: End, id: StreamId, change: impl FnOnce(&mut Direction)) {
        if let Some(direction) = self.directions.get_mut(&(writer, id)) {
            change(direction);
        }
    }
}

fn pattern_at(writer: End, id: StreamId, at: u64) -> usize {
    ((at % PERIOD + id.value() % PERIOD * 7 + writer as u64 * 101) % PERIOD) as usize
}

const PERIOD: u64 = 251;
/// The longest piece that is written or read at once.
pub(super) const MAX_PATTERN: usize = 64 * 1024;
static PATTERN: [u8; MAX_PATTERN + PERIOD as usize] = pattern();

const fn pattern() -> [u8; MAX_PATTERN + PERIOD as usize] {
    let mut pattern = [0; MAX_PATTERN + PERIOD as usize];
    let mut at = 0;
    while at < pattern.len() {
        pattern[at] = (at % PERIOD as usize) as u8;
        at += 1;
    }
    pattern
}
