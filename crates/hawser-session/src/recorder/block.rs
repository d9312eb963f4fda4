//! Blocks of a recording: entries, each told by what differs from the one before.

use hawser_types::Instant;

use super::bytes::Reader;
use super::entry::{Context, Entry};
use super::note::Note;

/// Reads the entries of one block, up to the first malformed one.
#[derive(Debug)]
pub(super) struct Block<'a> {
    context: Context,
    reader: Reader<'a>,
    broken: bool,
}

impl<'a> Block<'a> {
    pub(super) fn new(block: &'a [u8]) -> Self {
        Self {
            context: Context::default(),
            reader: Reader(block),
            broken: false,
        }
    }
}

impl Iterator for Block<'_> {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        while !self.broken && !self.reader.is_empty() {
            match self.context.read(&mut self.reader) {
                Some(Some(entry)) => return Some(entry),
                Some(None) => {}
                None => self.broken = true,
            }
        }
        None
    }
}

/// True if every byte of a block belongs to an entry.
pub(super) fn is_sound(block: &[u8]) -> bool {
    let mut block = Block::new(block);
    while block.next().is_some() {}
    !block.broken
}

/// Returns a block of notes alone.
pub(super) fn notes_block<'a>(notes: impl Iterator<Item = &'a (Instant, Note)>) -> Vec<u8> {
    let (mut context, mut block) = (Context::default(), Vec::new());
    for (at, note) in notes {
        context.put_note(&mut block, *at, *note);
    }
    block
}
