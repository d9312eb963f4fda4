//! What can go wrong, for each end.

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
        /// What the system said.
        source: io::Error,
    },
    /// A directory, a device, a pipe.
    #[error("{} is not a regular file", path.display())]
    NotAFile {
        /// What was given.
        path: PathBuf,
    },
    /// The file's name cannot be used at the other end.
    #[error("{}: {reason}", path.display())]
    Name {
        /// Which file.
        path: PathBuf,
        /// What is wrong with its name.
        reason: NameError,
    },
    /// A symbolic link that does not stay within its tree.
    #[error("{}: {reason}", path.display())]
    Link {
        /// Which link.
        path: PathBuf,
        /// What is wrong with it.
        reason: LinkError,
    },
    /// What a program writes cannot be read.
    #[error("cannot read the input: {0}")]
    Input(#[source] io::Error),
    /// Larger than the protocol carries.
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
        /// What the system said.
        source: io::Error,
    },
    /// Size or modification time changed meanwhile: send it again.
    #[error("{} changed while it was being sent", path.display())]
    SourceChanged {
        /// Which file.
        path: PathBuf,
    },
    /// The receiver does not take it.
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
    /// The stream broke. What arrived is kept there: sending again continues.
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
    /// The stream broke. What arrived is kept for the next attempt.
    #[error("the stream from the sender broke: {0}")]
    Stream(#[source] io::Error),
    /// The stream ended early. What arrived is kept for the next attempt.
    #[error("the sender stopped before the end of the file")]
    CutShort,
    /// Nothing came for too long. What arrived is kept for the next attempt.
    #[error("nothing came from the sender for {} s", after.as_secs())]
    Silent {
        /// How long.
        after: Duration,
    },
    /// Larger than this receiver takes.
    #[error("the file has {size}, more than the {limit} allowed here")]
    TooLarge {
        /// The file's size.
        size: ByteCount,
        /// The most that is taken.
        limit: ByteCount,
    },
    /// Something that is no directory, or a symbolic link, stands where a directory is to be.
    #[error("{} is there already and is not a directory", path.display())]
    NotADirectory {
        /// Where.
        path: PathBuf,
    },
    /// A directory has the name of something else; nothing takes its place.
    #[error("{name} is a directory at the receiver")]
    IsADirectory {
        /// Its name.
        name: String,
    },
    /// Something has the name of an input, whose content is not known beforehand.
    #[error("{name} exists already")]
    Occupied {
        /// Its name.
        name: String,
    },
    /// A file of that name with other content is there already.
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
        /// The most at once.
        limit: usize,
    },
    /// The bytes do not match the checksum, even after they were asked for again.
    #[error("the file does not match its checksum after {rounds} attempts")]
    Mismatch {
        /// How many times it was compared.
        rounds: usize,
    },
    /// The sender says that the file changed under its hands.
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
    /// What the sender is told; `None` where the stream is not there to tell it.
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

/// What the disk refuses.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// No room, or no quota left.
    #[error("the disk of {} is full: {needed} needed, {available} available", directory.display())]
    DiskFull {
        /// Where the file was to go.
        directory: PathBuf,
        /// How much is still to be stored.
        needed: ByteCount,
        /// How much may still be used.
        available: ByteCount,
    },
    /// The file system can hold few more files, whatever their size.
    #[error("the file system of {} has hardly any files left", directory.display())]
    TooManyEntries {
        /// Where the file was to go.
        directory: PathBuf,
    },
    /// Not allowed, or a read-only file system.
    #[error("not allowed to {action} {}: {source}", path.display())]
    Permission {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Larger than the file system or a resource limit takes.
    #[error("{} would be larger than this system takes", path.display())]
    FileTooLarge {
        /// Which file.
        path: PathBuf,
    },
    /// Anything else.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl StoreError {
    /// Sorts a system error. A full disk is told apart by [`is_full`] where its figures are known.
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

/// True if an error means that nothing more fits: a full disk or an exhausted quota.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::NOSPC | Errno::DQUOT)
    )
}
