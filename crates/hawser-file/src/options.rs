//! What a receiver takes and how it keeps it.

use std::time::Duration;

use hawser_types::ByteCount;

use super::wire::MAX_FILE_BYTES;

/// What a receiver takes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReceiveOptions {
    /// Files at the same time.
    pub max_files: usize,
    /// The largest file.
    pub max_file_size: ByteCount,
    /// What must stay free on the disk.
    pub keep_free: ByteCount,
    /// True if a file's room on the disk is taken before its first byte comes.
    pub preallocate: bool,
    /// What to do about a different file of the same name.
    pub existing: ExistingFile,
    /// How many new bytes there may be before they are made durable and entered in the journal …
    pub checkpoint_bytes: ByteCount,
    /// … and how old they may be. Together the most that a crash costs to send again.
    pub checkpoint_interval: Duration,
    /// How long a stream may take to say which file it brings.
    pub offer_timeout: Duration,
    /// How long nothing may come. A sender that reads a large file to hash it gets time on top.
    pub idle_timeout: Duration,
}

impl Default for ReceiveOptions {
    fn default() -> Self {
        Self {
            max_files: DEFAULT_MAX_FILES,
            max_file_size: ByteCount::new(MAX_FILE_BYTES),
            keep_free: DEFAULT_KEEP_FREE,
            preallocate: true,
            existing: ExistingFile::Refuse,
            checkpoint_bytes: DEFAULT_CHECKPOINT_BYTES,
            checkpoint_interval: DEFAULT_CHECKPOINT_INTERVAL,
            offer_timeout: DEFAULT_OFFER_TIMEOUT,
            idle_timeout: DEFAULT_IDLE_TIMEOUT,
        }
    }
}

/// What to do where a different file has the name already.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ExistingFile {
    /// Keep it and refuse the new one.
    #[default]
    Refuse,
    /// Put the new one in its place once that is complete.
    Replace,
}

/// Files at the same time, unless told otherwise.
const DEFAULT_MAX_FILES: usize = 16;
/// What stays free on the disk, unless told otherwise.
const DEFAULT_KEEP_FREE: ByteCount = ByteCount::from_mib(64);
/// How long an offer may take, unless told otherwise.
const DEFAULT_OFFER_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a sender may be silent, unless told otherwise: longer than a session outlives its
/// links.
const DEFAULT_IDLE_TIMEOUT: Duration = Duration::from_secs(120);
/// New bytes between two entries in the journal, unless told otherwise.
const DEFAULT_CHECKPOINT_BYTES: ByteCount = ByteCount::from_mib(64);
/// Time between two entries in the journal, unless told otherwise.
const DEFAULT_CHECKPOINT_INTERVAL: Duration = Duration::from_secs(2);
