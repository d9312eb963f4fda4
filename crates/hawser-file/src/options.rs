//! Settings of a receiver.

use std::time::Duration;

use hawser_types::ByteCount;

use super::wire::MAX_FILE_BYTES;

/// Limits and settings of a receiver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReceiveOptions {
    /// Files at the same time.
    pub max_files: usize,
    /// The largest file.
    pub max_file_size: ByteCount,
    /// Space that must stay free on the disk.
    pub keep_free: ByteCount,
    /// True if a file's disk space is allocated before its first byte arrives.
    pub preallocate: bool,
    /// How to treat a different file of the same name.
    pub existing: ExistingFile,
    /// Maximum amount of new bytes before they are synced and entered in the journal …
    pub checkpoint_bytes: ByteCount,
    /// … and their maximum age. A crash costs at most these bytes, which are sent again.
    pub checkpoint_interval: Duration,
    /// How long a stream may take to send its offer.
    pub offer_timeout: Duration,
    /// How long a sender may be silent. A sender that reads a large file to hash it gets more time.
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

/// How to treat a different file of the same name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ExistingFile {
    /// Keep it and refuse the new one.
    #[default]
    Refuse,
    /// Replace it with the new one once that is complete.
    Replace,
}

/// Default of [`ReceiveOptions::max_files`].
const DEFAULT_MAX_FILES: usize = 16;
/// Default of [`ReceiveOptions::keep_free`].
const DEFAULT_KEEP_FREE: ByteCount = ByteCount::from_mib(64);
/// Default of [`ReceiveOptions::offer_timeout`].
const DEFAULT_OFFER_TIMEOUT: Duration = Duration::from_secs(30);
/// Default of [`ReceiveOptions::idle_timeout`]: longer than a session survives without its links.
const DEFAULT_IDLE_TIMEOUT: Duration = Duration::from_secs(120);
/// Default of [`ReceiveOptions::checkpoint_bytes`].
const DEFAULT_CHECKPOINT_BYTES: ByteCount = ByteCount::from_mib(64);
/// Default of [`ReceiveOptions::checkpoint_interval`].
const DEFAULT_CHECKPOINT_INTERVAL: Duration = Duration::from_secs(2);
