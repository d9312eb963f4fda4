//! Blocks of entries. A new block replaces the oldest.

use std::collections::VecDeque;

use super::entry::Context;

/// A bounded number of blocks. Each can be read without those before it, so that the oldest can be
/// dropped at any time.
#[derive(Debug)]
pub(super) struct Ring {
    blocks: VecDeque<Vec<u8>>,
    most: usize,
    block_size: usize,
    lost: bool,
    context: Context,
    /// Scratch memory for the next entry.
    entry: Vec<u8>,
}

impl Ring {
    /// Creates a ring of at most `bytes` bytes, which are allocated block by block when needed; the
    /// first block grows, since most sessions of a gateway are idle and decide little.
    pub(super) fn new(bytes: usize) -> Self {
        let block_size = (bytes / BLOCKS).clamp(MIN_BLOCK, MAX_BLOCK);
        Self {
            blocks: VecDeque::new(),
            most: (bytes / block_size).max(2),
            block_size,
            lost: false,
            context: Context::default(),
            entry: Vec::new(),
        }
    }

    /// Appends the entry that `make` encodes. If a new block begins, `make` is called again, since
    /// the context is empty there. Returns `false` if it encodes none, or one too long for a block.
    pub(super) fn push(&mut self, make: impl Fn(&mut Context, &mut Vec<u8>) -> bool) -> bool {
        if self.blocks.is_empty() {
            self.begin_block();
        }
        self.entry.clear();
        if !make(&mut self.context, &mut self.entry) {
            return false;
        }
        if !self.fits() {
            self.begin_block();
            self.entry.clear();
            make(&mut self.context, &mut self.entry);
        }
        let fits = self.fits();
        if let Some(block) = self.blocks.back_mut().filter(|_| fits) {
            let needed = block.len() + self.entry.len();
            if needed > block.capacity() {
                let larger = (block.capacity() * 2).clamp(needed, self.block_size);
                block.reserve_exact(larger - block.len());
            }
            block.extend_from_slice(&self.entry);
        } else {
            // The entry has changed the context, but the reader does not see it.
            self.lost = true;
            self.context.clear();
            self.begin_block();
        }
        fits
    }

    /// Returns the blocks, the oldest first.
    pub(super) fn blocks(&self) -> impl Iterator<Item = &[u8]> {
        self.blocks.iter().map(Vec::as_slice)
    }

    /// True if any entry was dropped, or did not fit.
    pub(super) fn has_lost(&self) -> bool {
        self.lost
    }

    /// Returns the memory in use.
    pub(super) fn held(&self) -> usize {
        self.blocks.iter().map(Vec::capacity).sum()
    }

    fn fits(&self) -> bool {
        let used = self.blocks.back().map_or(0, Vec::len);
        used + self.entry.len() <= self.block_size
    }

    fn begin_block(&mut self) {
        let oldest = if self.blocks.len() < self.most {
            None
        } else {
            self.blocks.pop_front()
        };
        self.lost |= oldest.is_some();
        let size = if self.blocks.is_empty() {
            FIRST_SIZE
        } else {
            self.block_size
        };
        let mut block = oldest.unwrap_or_else(|| Vec::with_capacity(size));
        block.clear();
        self.blocks.push_back(block);
        self.context.clear();
    }
}

/// Number of blocks, so that a sixteenth of the memory is dropped at a time.
const BLOCKS: usize = 16;
/// Minimum size of a block. The first decision of a block has all fields of every channel.
const MIN_BLOCK: usize = 8 * 1024;
const MAX_BLOCK: usize = 64 * 1024;
/// Size that the first block has at first.
const FIRST_SIZE: usize = 1024;
