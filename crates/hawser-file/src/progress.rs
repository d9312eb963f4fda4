//! What a transfer tells its watcher.

use std::fmt;

use hawser_types::ByteCount;

use super::entry_path::EntryPath;

/// Watches one transfer, to draw a bar or to log it.
///
/// Called from the task of the transfer, often: it should return at once.
pub trait Progress: Send + Sync {
    /// The file is known now. At the receiver this is the first moment its name is.
    ///
    /// `total` is `None` where the size is known at the end only.
    fn begin(&self, path: &EntryPath, total: Option<ByteCount>) {
        let _ = (path, total);
    }

    /// The transfer moved on.
    fn update(&self, update: Update);
}

/// Ignores what a transfer reports.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProgress;

impl Progress for NoProgress {
    fn update(&self, _update: Update) {}
}

impl<F: Fn(Update) + Send + Sync> Progress for F {
    fn update(&self, update: Update) {
        self(update);
    }
}

/// Where a transfer stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Update {
    /// What is being done.
    pub phase: Phase,
    /// Bytes of the file that this phase is done with, those that were there before included.
    pub done: ByteCount,
    /// The file's size, or `done` where it is not known yet.
    pub total: ByteCount,
}

/// What a transfer is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Phase {
    /// Waiting for the other end's answer.
    Waiting,
    /// Bytes move. `done` starts at what was there already.
    Transferring,
    /// Bytes are compared with the checksum.
    Verifying,
    /// The file is complete and has its name.
    Finished,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Waiting => "waiting",
            Self::Transferring => "transferring",
            Self::Verifying => "verifying",
            Self::Finished => "finished",
        })
    }
}
