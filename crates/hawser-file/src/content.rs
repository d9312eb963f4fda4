//! The checksum of a file that arrives in pieces: BLAKE3, by blocks, in any order.
//!
//! BLAKE3 is a tree. A file is split into equal blocks whose length is a power of two. Each block's
//! value can be computed as soon as that block is complete, and the values combine to the hash that
//! `b3sum` prints. If the hashes differ, the blocks tell which bytes are wrong.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use blake3::Hasher;
use blake3::hazmat::{HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root};

use super::byte_range::ByteRange;

/// BLAKE3 of a whole file, as `b3sum` shows it.
pub type FileHash = blake3::Hash;

/// The value of one block: a chaining value, or the file's hash if it is the only block.
pub(super) type BlockHash = [u8; 32];

/// The division of a file of a given size into blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BlockGrid {
    size: u64,
    block: u64,
}

impl BlockGrid {
    /// Returns the grid that both ends use for `size` bytes.
    pub(super) fn for_size(size: u64) -> Self {
        let needed = size.div_ceil(MAX_BLOCKS as u64);
        // `size` is at most `MAX_FILE_BYTES`, so the power exists; a larger one gets one block.
        let block = needed.checked_next_power_of_two().unwrap_or(1 << 63);
        Self {
            size,
            block: block.max(MIN_BLOCK_BYTES),
        }
    }

    /// Number of blocks, from 1 (also for an empty file) to [`MAX_BLOCKS`].
    pub(super) fn count(self) -> usize {
        (self.size.div_ceil(self.block) as usize).max(1)
    }

    /// Returns the bytes of block `index`; `None` for the block of an empty file and for blocks
    /// behind the end.
    pub(super) fn range(self, index: usize) -> Option<ByteRange> {
        let start = (index as u64).checked_mul(self.block)?;
        ByteRange::new(start, start.saturating_add(self.block).min(self.size))
    }

    /// Returns the indices of the blocks that have a byte of `range`.
    pub(super) fn touched(self, range: ByteRange) -> std::ops::Range<usize> {
        let first = range.start() / self.block;
        let last = (range.end() - 1) / self.block;
        first as usize..(last as usize + 1).min(self.count())
    }

    /// Starts the hash of block `index`.
    pub(super) fn hasher(self, index: usize) -> BlockHasher {
        let mut hasher = Hasher::new();
        if let Some(range) = self.range(index) {
            hasher.set_input_offset(range.start());
        }
        BlockHasher {
            hasher,
            is_only: self.count() == 1,
        }
    }

    /// Computes the hash of the whole file from its blocks; `None` if their number is wrong.
    pub(super) fn root(self, blocks: &[BlockHash]) -> Option<FileHash> {
        if blocks.len() != self.count() {
            return None;
        }
        match blocks {
            [only] => Some(FileHash::from_bytes(*only)),
            _ => {
                let (left, right) = blocks.split_at(left_blocks(blocks.len()));
                Some(merge_subtrees_root(&join(left), &join(right), Mode::Hash))
            }
        }
    }
}

/// The hash of one block, in progress.
pub(super) struct BlockHasher {
    hasher: Hasher,
    is_only: bool,
}

impl BlockHasher {
    /// Takes the next bytes of the block, in order.
    pub(super) fn update(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
    }

    /// Returns the block's value, after all of its bytes were taken.
    pub(super) fn finish(self) -> BlockHash {
        if self.is_only {
            *self.hasher.finalize().as_bytes()
        } else {
            self.hasher.finalize_non_root()
        }
    }
}

/// Reads one block of a file and hashes it.
pub(super) fn hash_block(
    file: &File,
    grid: BlockGrid,
    index: usize,
    buffer: &mut [u8],
) -> io::Result<BlockHash> {
    let mut hasher = grid.hasher(index);
    if let Some(range) = grid.range(index) {
        read_through(file, range, buffer, |bytes| hasher.update(bytes))?;
    }
    Ok(hasher.finish())
}

/// Computes the guard of a resumed transfer: a hash over the size and the first and last mebibyte.
///
/// The guard detects a changed file without reading all of it. It decides only whether to continue
/// with the bytes that are stored; the checksum of every byte still decides at the end.
pub(super) fn guard(file: &File, size: u64) -> io::Result<[u8; 32]> {
    let mut hasher = Hasher::new_derive_key(GUARD_CONTEXT);
    hasher.update(&size.to_be_bytes());
    let mut buffer = vec![0; HASH_BUFFER_BYTES];
    let head = GUARD_BYTES.min(size);
    let tail = size.saturating_sub(GUARD_BYTES).max(head);
    for range in [ByteRange::new(0, head), ByteRange::new(tail, size)]
        .into_iter()
        .flatten()
    {
        read_through(file, range, &mut buffer, |bytes| {
            hasher.update(bytes);
        })?;
    }
    Ok(*hasher.finalize().as_bytes())
}

/// Passes every byte of `range` to `take`, in order, in pieces of at most the buffer.
pub(super) fn read_through(
    file: &File,
    range: ByteRange,
    buffer: &mut [u8],
    mut take: impl FnMut(&[u8]),
) -> io::Result<()> {
    let mut at = range.start();
    while at < range.end() {
        let length = (range.end() - at).min(buffer.len() as u64) as usize;
        let piece = &mut buffer[..length];
        file.read_exact_at(piece, at)?;
        take(piece);
        at += length as u64;
    }
    Ok(())
}

/// Computes the value of a subtree of whole blocks; the last block may be short.
fn join(blocks: &[BlockHash]) -> BlockHash {
    match blocks {
        // Never reached: every half of a list of two or more has one at least.
        [] => [0; 32],
        [only] => *only,
        _ => {
            let (left, right) = blocks.split_at(left_blocks(blocks.len()));
            merge_subtrees_non_root(&join(left), &join(right), Mode::Hash)
        }
    }
}

/// BLAKE3's rule for a tree: the left side is the largest power of two that leaves a right side.
fn left_blocks(count: usize) -> usize {
    count.next_power_of_two() / 2
}

/// Maximum number of blocks of a file: the list of their values stays within 512 KiB.
pub(super) const MAX_BLOCKS: usize = 16_384;
/// The shortest block.
pub(super) const MIN_BLOCK_BYTES: u64 = 1 << 20;
/// Size of reads for hashing: wide enough for SIMD, small enough for the L2 cache.
pub(super) const HASH_BUFFER_BYTES: usize = 256 << 10;
const GUARD_BYTES: u64 = 1 << 20;
const GUARD_CONTEXT: &str = "hawser 2026-01 file transfer guard";

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn file_with(content: &[u8]) -> File {
        let mut file = tempfile::tempfile().expect("the test can make a temporary file");
        file.write_all(content)
            .expect("the test can write its file");
        file
    }

    fn content(length: usize) -> Vec<u8> {
        (0..length)
            .map(|index| (index as u32).wrapping_mul(2_654_435_761).to_be_bytes()[0])
            .collect()
    }

    #[test]
    fn blocks_in_any_order_join_to_the_plain_hash_of_the_file() {
        const MIB: usize = 1 << 20;
        for length in [
            0,
            1,
            1023,
            MIB,
            MIB + 1,
            2 * MIB,
            3 * MIB,
            5 * MIB + 77,
            7 * MIB,
        ] {
            let bytes = content(length);
            let file = file_with(&bytes);
            let grid = BlockGrid::for_size(length as u64);
            let mut buffer = vec![0; 100_000];
            let mut blocks = vec![[0; 32]; grid.count()];
            for index in (0..grid.count()).rev() {
                blocks[index] =
                    hash_block(&file, grid, index, &mut buffer).expect("the file is readable");
            }
            assert_eq!(grid.root(&blocks), Some(blake3::hash(&bytes)), "{length}");
            assert_eq!(grid.root(&[]), None);
        }
    }

    #[test]
    fn the_grid_has_few_blocks_and_covers_every_byte_of_any_size() {
        let sizes = [
            0,
            1,
            1 << 20,
            (1 << 32) + 5,
            (1 << 34) + 1,
            1 << 44,
            1 << 60,
        ];
        for size in sizes {
            let grid = BlockGrid::for_size(size);
            assert!(grid.count() <= MAX_BLOCKS, "{size}");
            assert!(grid.block.is_power_of_two());
            let covered: u64 = (0..grid.count())
                .filter_map(|index| grid.range(index))
                .map(ByteRange::length)
                .sum();
            assert_eq!(covered, size);
            assert_eq!(grid.range(grid.count()), None);
            if let Some(all) = ByteRange::new(0, size) {
                assert_eq!(grid.touched(all), 0..grid.count());
            }
        }
    }

    #[test]
    fn the_guard_sees_changes_at_both_ends_and_in_the_size() {
        let bytes = content(3 << 20);
        let of = |bytes: &[u8]| guard(&file_with(bytes), bytes.len() as u64).expect("readable");
        let original = of(&bytes);
        let mut first = bytes.clone();
        first[0] ^= 1;
        let mut last = bytes.clone();
        last[(3 << 20) - 1] ^= 1;
        assert_ne!(of(&first), original);
        assert_ne!(of(&last), original);
        assert_ne!(of(&bytes[..bytes.len() - 1]), original);
        assert_eq!(of(&bytes), original);
    }
}
