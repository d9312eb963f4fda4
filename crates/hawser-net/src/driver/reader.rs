//! The memory that a channel reads into, and the size of its reads.

use bytes::BytesMut;
use hawser_session::seal::RecordReader;
use hawser_types::{Budget, ByteCount, Charge};

/// The records, the memory that they are read into, and the size of the next read.
pub(super) struct Reader {
    pub(super) records: RecordReader,
    held: Charge,
    size: usize,
}

impl Reader {
    /// `memory`: the peer's budget for the memory that its channels read into.
    pub(super) fn new(records: RecordReader, memory: &Budget) -> Self {
        Self {
            records,
            held: memory.empty_charge(),
            size: MIN_READ,
        }
    }

    /// The buffer for the next read. It has room for the rest of a record, and for more while
    /// memory is not scarce. Before reads become small, memory that is kept for later is freed.
    pub(super) fn buffer(&mut self) -> &mut BytesMut {
        let least = self.records.missing().max(MIN_READ);
        let large = self.size.max(least);
        let room = self.room();
        self.records.release_spare(room.saturating_sub(large));
        let is_scarce = self.records.held() + large > room;
        self.records.reserve(if is_scarce { least } else { large });
        self.records.release_spare(room);
        self.note();
        self.records.buffer()
    }

    fn room(&self) -> usize {
        usize::try_from(self.held.room().as_u64()).unwrap_or(usize::MAX)
    }

    fn note(&mut self) {
        self.held.note(ByteCount::from(self.records.held()));
    }

    /// Chooses the size of the next read after one that brought `read` bytes.
    pub(super) fn size_next(&mut self, read: usize) {
        if read >= self.size {
            self.size = (self.size * 2).min(MAX_READ);
        } else if read < self.size / 4 {
            self.size = (self.size / 2).max(MIN_READ);
        }
    }

    /// Gives back what was not needed since the last call; call it about once a second.
    pub(super) fn trim(&mut self) {
        self.records.trim();
        self.note();
    }

    /// True if the channel waits for the rest of a record while its peer exceeds its part of the
    /// memory, and all peers together exceed the whole.
    pub(super) fn is_one_too_many(&self) -> bool {
        self.records.is_mid_record() && self.held.budget().is_over()
    }

    /// Frees the memory kept for later if all channels together hold too much.
    pub(super) fn give_back_if_scarce(&mut self) {
        let room = self.room();
        self.records.release_spare(room);
        if self.records.held() > room {
            self.records.release();
        }
        self.note();
    }
}

const MIN_READ: usize = 16 * 1024;
const MAX_READ: usize = 256 * 1024;

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use hawser_session::seal::{Aead, Direction, SessionKeys};
    use hawser_types::{ByteCount, ChannelId};
    use hawser_wire::{MAX_RECORD_BODY, RecordFlags, RecordHeader};
    use zeroize::Zeroizing;

    use super::*;

    const CHANNELS: u32 = 100;
    const LIMIT: ByteCount = ByteCount::from_mib(2);

    fn readers(memory: &Budget) -> Vec<Reader> {
        let keys = SessionKeys::new(Zeroizing::new([7; 32]), Aead::ChaCha20Poly1305);
        let reader = |id| keys.reader(ChannelId::new(id), Direction::ClientToGateway, false);
        let all = (0..CHANNELS).map(|id| Reader::new(reader(id), memory));
        all.collect()
    }

    /// Reads half of what a record of the greatest length still lacks; the next read may be larger.
    fn read(reader: &mut Reader) {
        if !reader.records.is_mid_record() {
            let flags = RecordFlags::default();
            let length = MAX_RECORD_BODY;
            let header = RecordHeader { flags, length }.encode();
            reader.buffer().extend_from_slice(&header);
        }
        let more = reader.records.missing() / 2;
        let buffer = reader.buffer();
        buffer.resize(buffer.len() + more, 0);
        reader.size_next(usize::MAX);
    }

    #[test]
    fn records_that_never_end_take_no_more_than_a_peers_part_when_memory_is_scarce() {
        let all = Budget::new(ByteCount::from_mib(1));
        let part = all.part(ByteCount::from_kib(512));
        let mut readers = readers(&part);
        let mut held = 0;
        for reader in &mut readers {
            (0..6).for_each(|_| read(reader));
            reader.give_back_if_scarce();
            held += u32::from(!reader.is_one_too_many());
        }
        assert!((1..CHANNELS).contains(&held), "{held}");
        let other = all.part(ByteCount::from_kib(512));
        let mut honest = self::readers(&other).swap_remove(0);
        read(&mut honest);
        assert!(!honest.is_one_too_many());
    }

    #[test]
    fn many_channels_that_read_much_hold_the_limit_and_a_record_each() {
        let memory = Budget::new(LIMIT);
        let mut readers = readers(&memory);
        for _ in 0..6 {
            readers.iter_mut().for_each(read);
        }
        let held = memory.held().as_u64();
        // Far less than the readers would take without a limit.
        let record = MAX_RECORD_BODY as u64 + MIN_READ as u64;
        assert!(
            held <= LIMIT.as_u64() + u64::from(CHANNELS) * record,
            "{held}"
        );
    }

    /// Slices of what was read live on for a while, so full buffers are kept until they are free.
    #[test]
    fn a_channel_at_the_limit_forgets_kept_buffers_before_it_reads_little() {
        let memory = Budget::new(LIMIT);
        let mut reader = readers(&memory).swap_remove(0);
        let mut slices = VecDeque::new();
        for turn in 0..100 {
            reader.size_next(usize::MAX);
            let wanted = reader.size;
            let buffer = reader.buffer();
            assert!(buffer.capacity() >= wanted, "turn {turn}");
            buffer.resize(wanted, 0);
            slices.push_back(buffer.split().freeze());
            if slices.len() > 16 {
                slices.pop_front();
            }
            assert!(memory.held() <= LIMIT, "turn {turn}");
        }
        let kept = memory.held().as_u64();
        assert!(kept > LIMIT.as_u64() / 2, "{kept}");
    }

    #[test]
    fn a_channel_that_waits_keeps_its_buffer_only_where_there_is_room() {
        let memory = Budget::new(LIMIT);
        let mut readers = readers(&memory);
        for reader in &mut readers {
            reader.size = MAX_READ;
            reader.buffer();
        }
        assert!(memory.held() > LIMIT);
        readers.iter_mut().for_each(Reader::give_back_if_scarce);
        assert!(memory.held() <= LIMIT && memory.held() > ByteCount::ZERO);
        // There is room again once others are gone.
        readers.truncate(1);
        assert!(readers[0].buffer().capacity() >= MAX_READ);
    }
}
