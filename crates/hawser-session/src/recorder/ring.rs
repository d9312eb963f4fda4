//! Blocks of entries, of which the oldest is given up for the next.

use std::collections::VecDeque;

use super::entry::Context;

/// A bounded number of blocks. Each can be read without those before it, so that the oldest can
/// go at any time.
#[derive(Debug)]
pub(super) struct Ring {
    blocks: VecDeque<Vec<u8>>,
    most: usize,
    block_size: usize,
    lost: bool,
    context: Context,
    /// The entry that is being made.
    entry: Vec<u8>,
}

impl Ring {
    /// At most `bytes` bytes, which are taken block by block when they are needed.
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

    /// Appends the entry that `make` makes; `make` is called again when a new block begins, since
    /// what the reader knows begins anew there. `false`: it made none, or one that fits no block.
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
            block.extend_from_slice(&self.entry);
        } else {
            // The reader did not see what this entry says.
            self.lost = true;
            self.context.clear();
            self.begin_block();
        }
        fits
    }

    /// The blocks, the oldest first.
    pub(super) fn blocks(&self) -> impl Iterator<Item = &[u8]> {
        self.blocks.iter().map(Vec::as_slice)
    }

    /// Whether any entry had to go, or did not fit.
    pub(super) fn has_lost(&self) -> bool {
        self.lost
    }

    /// The memory that it has taken.
    pub(super) fn held(&self) -> usize {
        self.blocks.len() * self.block_size
    }

    fn fits(&self) -> bool {
        let used = self.blocks.back().map_or(0, Vec::len);
        used + self.entry.len() <= self.block_size
    }

    fn begin_block(&mut self) {
        let oldest = match self.blocks.len() < self.most {
            true => None,
            false => self.blocks.pop_front(),
        };
        self.lost |= oldest.is_some();
        let mut block = oldest.unwrap_or_else(|| Vec::with_capacity(self.block_size));
        block.clear();
        self.blocks.push_back(block);
        self.context.clear();
    }
}

/// How many blocks the memory is cut into, so that a sixteenth of it goes at a time.
const BLOCKS: usize = 16;
/// Enough for the first decision of a block, which says everything of every channel.
const MIN_BLOCK: usize = 8 * 1024;
const MAX_BLOCK: usize = 64 * 1024;
