//! Progress reports of a transfer.

use std::fmt;

use hawser_types::ByteCount;

use super::entry_path::EntryPath;

/// Watches one transfer, to draw a bar or to log it.
///
/// Called from the task of the transfer, often: it should return at once.
pub trait Progress: Send + Sync {
    /// Called when the file is known. At the receiver this is when its name arrives.
    ///
    /// `total` is `None` if the size is known only at the end.
    fn begin(&self, path: &EntryPath, total: Option<ByteCount>) {
        let _ = (path, total);
    }

    /// Called when the transfer made progress.
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

/// The state of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Update {
    /// The current phase.
    pub phase: Phase,
    /// Bytes of the file that are done in this phase, including those that were stored before.
    pub done: ByteCount,
    /// The file's size, or `done` while it is not known.
    pub total: ByteCount,
}

/// The phase of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Phase {
    /// Waiting for the other end's answer.
    Waiting,
    /// Bytes are transferred. `done` starts with the bytes that were stored before.
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
