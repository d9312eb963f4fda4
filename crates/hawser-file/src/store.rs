//! The receiver's side of the disk: the target directory, unfinished files, final names.

mod directory;
mod journal;
mod part;

pub(super) use directory::{Directory, Entry, Existing};
#[cfg(any(test, feature = "fuzzing"))]
pub(super) use journal::{decode as decode_journal, encode as encode_journal};
pub(super) use part::{Part, PartOptions, Remains};
