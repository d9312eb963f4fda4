//! File transfer: a file is sent over one stream, and its chunks are written to their place in the
//! file in order of arrival.
//!
//! [`send_file`] sends a file over a stream that the caller opened, and [`Receiver`] receives it
//! into a directory. [`Tree`] lists the contents of a directory, and [`send_entry`] sends one of
//! its entries, over a stream of its own; [`send_input`] sends the output of a program.
//!
//! An interrupted transfer continues where it stopped: both ends do the same again, over a new
//! stream. A file gets its name only when all of it is on disk and matches its BLAKE3 checksum.
//!
//! The stream can be any transport: tokio's `AsyncRead` and `AsyncWrite` for the sender, and for
//! the receiver [`UnorderedRead`], which returns chunks by offset.
//!
//! - Sending: `tree.rs` (what a directory has) → `send.rs` → `source.rs` (read once, hashed on the
//!   way) → `wire/offer.rs`, `wire/trailer.rs`; `wire/answer.rs` says from where to continue.
//! - Receiving: `receive.rs` → `incoming.rs` (one stream) → `name.rs` or `entry_path.rs` (no name
//!   leads out of the directory) → `writer.rs` (the thread that owns the file) → `store/part.rs`
//!   and `store/journal.rs` (ranges that are safely on disk).
//!
//! Where to begin: a field of a message, `wire/`; what is taken from a directory, `tree.rs` and
//! `link_target.rs`; what a receiver makes of it, `inbox.rs` and `store/directory.rs`. Tests:
//! `tests/`, with `tests/crash.rs` (a receiver was killed), `tests/disk.rs` and `tests/hostile.rs`.
//!
//! `docs/design/file-transfer.md` describes the bytes, the files and the reasons.

mod byte_range;
mod claims;
mod compare;
mod content;
mod entry_kind;
mod entry_path;
mod error;
#[doc(hidden)]
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod inbox;
mod incoming;
mod layout;
mod link_target;
mod made;
mod name;
mod options;
mod progress;
mod receive;
mod send;
mod source;
mod store;
#[cfg(test)]
mod tests;
mod transport;
mod tree;
mod wire;
mod writer;

pub use content::FileHash;
pub use entry_kind::EntryKind;
pub use entry_path::EntryPath;
pub use error::{ReceiveError, SendError, StoreError};
pub use incoming::Received;
pub use link_target::LinkError;
pub use name::{FileName, NameError};
pub use options::{ExistingFile, ReceiveOptions};
pub use progress::{NoProgress, Phase, Progress, Update};
pub use receive::Receiver;
pub use send::{SendOptions, Sent, send_entry, send_file, send_input};
pub use transport::UnorderedRead;
pub use tree::{SkipReason, Skipped, Tree, TreeEntry, TreeError};
pub use wire::{Fault, Refusal};
