//! Memory that packets share.

use std::collections::VecDeque;

use bytes::BytesMut;

/// Memory for packets that come one after the other, in blocks of 16 KiB.
///
/// A packet that is kept keeps its block, and no more. A block is used again once no packet of it
/// lives: memory of that size is costly to get and to give back for a batch of packets.
#[derive(Debug, Default)]
pub struct PacketMemory {
    block: BytesMut,
    /// There is one.
    has_block: bool,
    /// Blocks that are full, those to be looked at first in front.
    full: VecDeque<BytesMut>,
}

impl PacketMemory {
    /// Returns memory with room for `length` bytes. What is written there has to be split off.
    pub fn room_for(&mut self, length: usize) -> &mut BytesMut {
        if self.block.capacity() < length {
            self.next_block(length);
        }
        &mut self.block
    }

    /// Gives back a block that is full. An idle caller calls this each time, so that it keeps
    /// little memory in the end.
    pub fn give_back(&mut self) {
        self.full.pop_front();
        if self.full.is_empty() {
            self.full.shrink_to_fit();
        }
    }

    fn next_block(&mut self, length: usize) {
        let full = std::mem::take(&mut self.block);
        if self.has_block {
            self.full.push_back(full);
        }
        self.has_block = true;
        if self.full.len() > MAX_BLOCKS {
            self.full.pop_front();
        }
        let Some(mut oldest) = self.full.pop_front().filter(|_| length <= BLOCK) else {
            self.block = BytesMut::with_capacity(length.max(BLOCK));
            return;
        };
        if oldest.try_reclaim(BLOCK) {
            self.block = oldest;
        } else {
            // Another one is looked at the next time: packets of this one may be kept for long.
            self.full.push_back(oldest);
            self.block = BytesMut::with_capacity(BLOCK);
        }
    }
}

/// Size of a block.
pub const BLOCK: usize = 16 << 10;
/// Blocks that are remembered: 256 KiB.
const MAX_BLOCKS: usize = 16;

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn packet(memory: &mut PacketMemory, length: usize) -> Bytes {
        let room = memory.room_for(length);
        room.resize(length, 7);
        room.split().freeze()
    }

    #[test]
    fn blocks_are_used_again_once_no_packet_of_them_lives() {
        let mut memory = PacketMemory::default();
        let mut places = std::collections::BTreeSet::new();
        for _ in 0..1000 {
            let batch: Vec<_> = (0..30).map(|_| packet(&mut memory, 1400)).collect();
            places.extend(batch.iter().map(|it| it.as_ptr() as usize));
        }
        // A batch takes less than three blocks of eleven packets.
        assert!(places.len() <= 5 * 11, "{} places", places.len());
    }

    #[test]
    fn packets_that_are_kept_stay_as_they_are_and_cost_no_more_than_their_blocks() {
        let mut memory = PacketMemory::default();
        let kept: Vec<_> = (0..=255_u8)
            .map(|number| {
                let room = memory.room_for(4000);
                room.resize(4000, number);
                room.split().freeze()
            })
            .collect();
        for _ in 0..1000 {
            packet(&mut memory, 1000);
        }
        for (number, packet) in kept.iter().enumerate() {
            assert!(packet.iter().all(|byte| usize::from(*byte) == number));
        }
        assert!(memory.full.len() <= MAX_BLOCKS);
    }

    #[test]
    fn an_idle_owner_keeps_one_block() {
        let mut memory = PacketMemory::default();
        let sent: Vec<_> = (0..300).map(|_| packet(&mut memory, 1400)).collect();
        drop(sent);
        assert!(memory.full.len() > 8);
        (0..MAX_BLOCKS).for_each(|_| memory.give_back());
        assert_eq!(memory.full.capacity(), 0);
        assert_eq!(packet(&mut memory, 1400), [7; 1400][..]);
    }

    #[test]
    fn a_packet_may_be_longer_than_a_block() {
        let mut memory = PacketMemory::default();
        assert_eq!(packet(&mut memory, 60_000), [7; 60_000][..]);
        assert_eq!(packet(&mut memory, 1), [7][..]);
    }
}
