//! Errors of each end.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use hawser_types::ByteCount;
use rustix::io::Errno;
use thiserror::Error;

use super::link_target::LinkError;
use super::name::NameError;
use super::wire::{Fault, Refusal};

/// Why a file was not sent.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SendError {
    /// The file cannot be opened.
    #[error("cannot open {}: {source}", path.display())]
    Open {
        /// Which file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A directory, a device, a pipe.
    #[error("{} is not a regular file", path.display())]
    NotAFile {
        /// The given path.
        path: PathBuf,
    },
    /// The file's name cannot be used at the other end.
    #[error("{}: {reason}", path.display())]
    Name {
        /// Which file.
        path: PathBuf,
        /// The fault in its name.
        reason: NameError,
    },
    /// A symbolic link that does not stay within its tree.
    #[error("{}: {reason}", path.display())]
    Link {
        /// Which link.
        path: PathBuf,
        /// The fault in its target.
        reason: LinkError,
    },
    /// The program's output cannot be read.
    #[error("cannot read the input: {0}")]
    Input(#[source] io::Error),
    /// The file is larger than the protocol supports.
    #[error("{} has {size}, more than a transfer carries", path.display())]
    TooLarge {
        /// Which file.
        path: PathBuf,
        /// Its size.
        size: ByteCount,
    },
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Size or modification time changed during the transfer: send it again.
    #[error("{} changed while it was being sent", path.display())]
    SourceChanged {
        /// Which file.
        path: PathBuf,
    },
    /// The receiver refused the file.
    #[error("the receiver refused the file: {detail}")]
    Refused {
        /// The reason, for programs.
        refusal: Refusal,
        /// The reason, for people, in the receiver's words.
        detail: String,
    },
    /// The receiver broke the protocol.
    #[error("the receiver misbehaved: {0}")]
    Misbehaved(#[from] Fault),
    /// The stream broke. The receiver keeps the bytes that arrived: sending again continues.
    #[error("the stream to the receiver broke: {0}")]
    Stream(#[source] io::Error),
}

/// Why a file was not received.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReceiveError {
    /// The sender broke the protocol.
    #[error("the sender misbehaved: {0}")]
    Misbehaved(#[from] Fault),
    /// The stream broke. The bytes that arrived are kept for the next attempt.
    #[error("the stream from the sender broke: {0}")]
    Stream(#[source] io::Error),
    /// The stream ended early. The bytes that arrived are kept for the next attempt.
    #[error("the sender stopped before the end of the file")]
    CutShort,
    /// The sender was silent for too long. The bytes that arrived are kept for the next attempt.
    #[error("nothing came from the sender for {} s", after.as_secs())]
    Silent {
        /// How long.
        after: Duration,
    },
    /// The file is larger than this receiver accepts.
    #[error("the file has {size}, more than the {limit} allowed here")]
    TooLarge {
        /// The file's size.
        size: ByteCount,
        /// The greatest accepted size.
        limit: ByteCount,
    },
    /// A symbolic link or another entry that is no directory stands where a directory is needed.
    #[error("{} is there already and is not a directory", path.display())]
    NotADirectory {
        /// Its path.
        path: PathBuf,
    },
    /// A directory has the name; it is never replaced.
    #[error("{name} is a directory at the receiver")]
    IsADirectory {
        /// Its name.
        name: String,
    },
    /// The name of an input exists; the input's content is not known beforehand.
    #[error("{name} exists already")]
    Occupied {
        /// Its name.
        name: String,
    },
    /// A file of that name with other content exists.
    #[error("{name} exists already and is different")]
    Exists {
        /// Its name.
        name: String,
    },
    /// Another file of the same name is being received.
    #[error("another file named {name} is being received")]
    Busy {
        /// The name.
        name: String,
    },
    /// As many files as allowed are being received.
    #[error("{limit} files are being received already")]
    TooManyFiles {
        /// The maximum number at the same time.
        limit: usize,
    },
    /// The bytes do not match the checksum, even after they were requested again.
    #[error("the file does not match its checksum after {rounds} attempts")]
    Mismatch {
        /// How many times the file was compared.
        rounds: usize,
    },
    /// The sender reports that the file changed while it was being sent.
    #[error("the file changed at the sender while it was being sent")]
    SourceChanged,
    /// A later attempt to send the same file took over.
    #[error("a later transfer of the same file took over")]
    Superseded,
    /// The disk.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ReceiveError {
    /// Returns the refusal for the sender; `None` if there is no stream to send it.
    pub fn refusal(&self) -> Option<Refusal> {
        Some(match self {
            Self::Misbehaved(Fault::Version { .. }) => Refusal::Version,
            Self::Misbehaved(Fault::Name(_) | Fault::Link(_)) => Refusal::Name,
            Self::Misbehaved(_) => Refusal::Malformed,
            Self::Stream(_) | Self::CutShort | Self::Silent { .. } => return None,
            Self::TooLarge { .. } | Self::Store(StoreError::FileTooLarge { .. }) => {
                Refusal::TooLarge
            }
            Self::Exists { .. }
            | Self::NotADirectory { .. }
            | Self::IsADirectory { .. }
            | Self::Occupied { .. } => Refusal::Exists,
            Self::Busy { .. } => Refusal::Busy,
            Self::TooManyFiles { .. } => Refusal::TooManyFiles,
            Self::Mismatch { .. } => Refusal::Mismatch,
            Self::SourceChanged => Refusal::SourceChanged,
            Self::Superseded => Refusal::Superseded,
            Self::Store(StoreError::DiskFull { .. } | StoreError::TooManyEntries { .. }) => {
                Refusal::DiskFull
            }
            Self::Store(StoreError::Permission { .. }) => Refusal::Permission,
            Self::Store(StoreError::Io { .. }) => Refusal::Storage,
        })
    }
}

/// Errors of the disk.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// No space, or no quota left.
    #[error("the disk of {} is full: {needed} needed, {available} available", directory.display())]
    DiskFull {
        /// The target directory.
        directory: PathBuf,
        /// Bytes that are still to be stored.
        needed: ByteCount,
        /// Bytes that may still be used.
        available: ByteCount,
    },
    /// The file system has too few free inodes, whatever the size of the files.
    #[error("the file system of {} has almost no free inodes left", directory.display())]
    TooManyEntries {
        /// The target directory.
        directory: PathBuf,
    },
    /// Not allowed, or a read-only file system.
    #[error("not allowed to {action} {}: {source}", path.display())]
    Permission {
        /// The attempted action.
        action: &'static str,
        /// Its path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file is larger than the file system or a resource limit allows.
    #[error("{} would be larger than this system takes", path.display())]
    FileTooLarge {
        /// Which file.
        path: PathBuf,
    },
    /// Anything else.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The attempted action.
        action: &'static str,
        /// Its path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl StoreError {
    /// Classifies a system error; for a full disk with known figures see [`is_full`].
    pub(super) fn new(action: &'static str, path: PathBuf, source: io::Error) -> Self {
        match Errno::from_io_error(&source) {
            Some(Errno::ACCESS | Errno::PERM | Errno::ROFS) => Self::Permission {
                action,
                path,
                source,
            },
            Some(Errno::FBIG) => Self::FileTooLarge { path },
            _ => Self::Io {
                action,
                path,
                source,
            },
        }
    }
}

/// True if an error means that no space is left: a full disk or an exhausted quota.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::NOSPC | Errno::DQUOT)
    )
}
