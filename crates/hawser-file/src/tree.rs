//! The contents of a directory, to be sent entry by entry.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use hawser_types::ByteCount;
use thiserror::Error;

use super::entry_kind::EntryKind;
use super::entry_path::EntryPath;
use super::error::SendError;
use super::link_target::{LinkError, LinkTarget};
use super::name::NameError;
use super::source::modified;
use super::wire::{Kind, Offer};

/// A directory with everything below it, at the time of reading.
#[derive(Debug)]
pub struct Tree {
    /// Entries that can be sent: directories stand before their contents, names in order.
    pub entries: Vec<TreeEntry>,
    /// Entries that cannot be sent.
    pub skipped: Vec<Skipped>,
}

/// One entry of a tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TreeEntry {
    /// Its path on this machine.
    pub source: PathBuf,
    /// Its path at the receiver.
    pub path: EntryPath,
    /// Folders of `path` above the top of the tree. They are not sent, so no symbolic link may
    /// point there.
    pub top_depth: usize,
    /// Its kind.
    pub kind: EntryKind,
    /// Size of a file; 0 for the rest.
    pub size: ByteCount,
}

/// One entry of a tree that is left out.
#[derive(Debug)]
pub struct Skipped {
    /// Its path on this machine.
    pub source: PathBuf,
    /// The reason.
    pub reason: SkipReason,
}

/// Why an entry of a tree is left out.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SkipReason {
    /// A socket, a pipe, a device.
    #[error("{0} is not sent")]
    Special(&'static str),
    /// A symbolic link that does not stay in the tree.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// A name that every receiver rejects.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The entry cannot be read.
    #[error(transparent)]
    Unreadable(#[from] io::Error),
}

impl SkipReason {
    /// True if content is missing at the receiver; special files and bad links have none.
    pub fn is_failure(&self) -> bool {
        matches!(self, Self::Name(_) | Self::Unreadable(_))
    }
}

/// Why a tree cannot be sent at all.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TreeError {
    /// The directory itself cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Which directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The directory has more entries than a transfer supports.
    #[error("{} has more than {limit} files", path.display())]
    TooMany {
        /// Which directory.
        path: PathBuf,
        /// The maximum number of entries.
        limit: usize,
    },
}

impl Tree {
    /// Reads a directory, which is named `top` at the receiver. Waits for the disk.
    ///
    /// Symbolic links are not followed, except for `directory` itself.
    pub fn read(directory: &Path, top: EntryPath) -> Result<Self, TreeError> {
        Self::read_at_most(directory, top, MAX_ENTRIES)
    }

    fn read_at_most(directory: &Path, top: EntryPath, limit: usize) -> Result<Self, TreeError> {
        let failed = |source| TreeError::Read {
            path: directory.to_owned(),
            source,
        };
        let mut reading = Reading {
            tree: Self {
                entries: Vec::new(),
                skipped: Vec::new(),
            },
            due: Vec::new(),
            top_depth: top.folders().len(),
            room: limit.saturating_add(1),
        };
        reading.list(directory, &top).map_err(failed)?;
        reading.add(directory.to_owned(), top, EntryKind::Directory, 0);
        while let Some((source, path)) = reading.due.pop() {
            if reading.room == 0 {
                let path = directory.to_owned();
                return Err(TreeError::TooMany { path, limit });
            }
            if let Err(reason) = reading.visit(&source, path) {
                reading.tree.skipped.push(Skipped { source, reason });
            }
        }
        Ok(reading.tree)
    }

    /// Bytes of all files.
    pub fn size(&self) -> ByteCount {
        let sizes = self.entries.iter().map(|entry| entry.size.as_u64());
        ByteCount::new(sizes.fold(0, u64::saturating_add))
    }
}

impl TreeEntry {
    /// Returns the offer of a directory or a link. Waits for the disk.
    pub(super) fn bare_offer(&self) -> Result<Offer, SendError> {
        let path = || self.source.clone();
        let open = |source| SendError::Open {
            path: path(),
            source,
        };
        let metadata = fs::symlink_metadata(&self.source).map_err(open)?;
        let kind = match self.kind {
            EntryKind::Link => {
                let target = fs::read_link(&self.source).map_err(open)?;
                let target =
                    LinkTarget::within(self.top_depth, &self.path, target.as_os_str().as_bytes());
                Kind::Link(target.map_err(|reason| SendError::Link {
                    path: path(),
                    reason,
                })?)
            }
            _ if metadata.is_dir() => Kind::Directory,
            _ => return Err(SendError::SourceChanged { path: path() }),
        };
        Ok(Offer {
            path: self.path.clone(),
            kind,
            size: ByteCount::ZERO,
            modified: modified(&metadata),
            mode: metadata.mode() & 0o7777,
            guard: [0; 32],
        })
    }
}

/// A tree that is being read.
struct Reading {
    tree: Tree,
    /// Names found in directories and not examined yet; the last is the next.
    due: Vec<(PathBuf, Result<EntryPath, NameError>)>,
    /// Folders above the top of the tree at the receiver.
    top_depth: usize,
    /// How many more entries the tree may have.
    room: usize,
}

impl Reading {
    /// Examines one entry.
    fn visit(
        &mut self,
        source: &Path,
        path: Result<EntryPath, NameError>,
    ) -> Result<(), SkipReason> {
        let metadata = fs::symlink_metadata(source)?;
        let path = path?;
        let (kind, size) = match metadata.file_type() {
            kind if kind.is_dir() => {
                self.list(source, &path)?;
                (EntryKind::Directory, 0)
            }
            kind if kind.is_file() => (EntryKind::File, metadata.len()),
            kind if kind.is_symlink() => {
                let target = fs::read_link(source)?;
                LinkTarget::within(self.top_depth, &path, target.as_os_str().as_bytes())?;
                (EntryKind::Link, 0)
            }
            kind if kind.is_socket() => return Err(SkipReason::Special("a socket")),
            kind if kind.is_fifo() => return Err(SkipReason::Special("a pipe")),
            _ => return Err(SkipReason::Special("a device")),
        };
        self.add(source.to_owned(), path, kind, size);
        Ok(())
    }

    fn add(&mut self, source: PathBuf, path: EntryPath, kind: EntryKind, size: u64) {
        let size = ByteCount::new(size);
        self.tree.entries.push(TreeEntry {
            source,
            path,
            top_depth: self.top_depth,
            kind,
            size,
        });
    }

    /// Reads the names in a directory, up to the limit of entries.
    fn list(&mut self, directory: &Path, path: &EntryPath) -> io::Result<()> {
        let first = self.due.len();
        for found in fs::read_dir(directory)? {
            let name = found?.file_name();
            let mut below = path.to_string().into_bytes();
            below.push(b'/');
            below.extend_from_slice(name.as_bytes());
            let path = EntryPath::from_bytes(&below);
            self.due.push((directory.join(name), path));
            self.room = self.room.saturating_sub(1);
            if self.room == 0 {
                break;
            }
        }
        self.due[first..].sort_by(|one, other| other.0.cmp(&one.0));
        Ok(())
    }
}

/// Maximum number of entries of a tree: some 300 MB of names.
const MAX_ENTRIES: usize = 1_000_000;

#[cfg(test)]
mod tests;
