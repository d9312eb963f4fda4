//! One unfinished file.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hawser_types::RangeSet;
use rustix::fs::{FallocateFlags, FlockOperation, OFlags, fallocate, flock};
use rustix::io::Errno;

use super::directory::{Directory, set_time};
use super::journal::JournalFile;
use crate::byte_range::ByteRange;
use crate::entry_path::EntryPath;
use crate::error::{ReceiveError, StoreError, is_full};
use crate::wire::{FileTime, Identity, Offer};

/// Options for unfinished files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartOptions {
    /// True if disk space is allocated before the first byte arrives.
    pub(crate) preallocate: bool,
    /// True if a different file under the final name is replaced.
    pub(crate) replace: bool,
}

/// An unfinished file, its journal, and the ranges that are stored.
///
/// Holds a lock on the file, so that no other process writes to it.
#[derive(Debug)]
pub(crate) struct Part {
    directory: Directory,
    /// The final path; its folders are those of `directory`.
    place: EntryPath,
    name: String,
    /// For messages.
    path: PathBuf,
    file: Arc<File>,
    journal: JournalFile,
    identity: Identity,
    size: u64,
    modified: FileTime,
    mode: u32,
    options: PartOptions,
    held: RangeSet,
}

impl Part {
    /// Continues an earlier transfer of the same file, or begins.
    pub(crate) fn open(
        directory: &Directory,
        offer: &Offer,
        options: PartOptions,
    ) -> Result<Self, ReceiveError> {
        let name = offer.path.name().part();
        let path = directory.path_of(&name);
        let journal = JournalFile {
            directory: directory.clone(),
            name: offer.path.name().journal(),
            draft: offer.path.name().journal_draft(),
        };
        let identity = offer.identity();
        let size = offer.size.as_u64();
        let mut held = RangeSet::new();
        let mut file = None;
        if let Ok(old) = directory.open_plainly(&name, true) {
            lock(&old, &offer.path)?;
            if old.metadata().is_ok_and(|metadata| metadata.len() == size) {
                held = journal.load(identity, size);
            }
            file = (!held.is_empty()).then_some(old);
        }
        let fresh = file.is_none();
        let space = Space {
            directory,
            options,
            path: &path,
            size,
        };
        let file = match file {
            Some(file) => file,
            None => {
                space.check(0)?;
                directory.check_entry()?;
                // First the journal is removed, durably: it must not describe another file.
                begin(directory, &name, &journal, &offer.path)?
            }
        };
        if let Err(error) = space.take(&file) {
            if fresh {
                let _ = directory.remove(&name);
            }
            return Err(error.into());
        }
        Ok(Self {
            directory: directory.clone(),
            place: offer.path.clone(),
            name,
            path,
            file: Arc::new(file),
            journal,
            identity,
            size,
            modified: offer.modified,
            mode: directory.allowed_mode(offer.mode) | OWN_FILE_MODE,
            options,
            held,
        })
    }

    /// The ranges that are stored.
    pub(crate) fn held(&self) -> &RangeSet {
        &self.held
    }

    /// The file's size when it is complete.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// The file, for reading.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Writes bytes at their place; returns how many were not stored before.
    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<u64, StoreError> {
        let Some(range) = ByteRange::with_length(offset, bytes.len() as u64) else {
            return Ok(0);
        };
        if let Err(error) = self.file.write_all_at(bytes, offset) {
            return Err(self.failed("write", error));
        }
        Ok(self.held.insert(range.into()))
    }

    /// Removes wrong bytes from the stored ranges.
    pub(crate) fn forget(&mut self, range: ByteRange) {
        self.held.remove(range.into());
    }

    /// Returns the work that makes the present state durable; it may run on another thread.
    pub(crate) fn checkpoint(&self) -> Checkpoint {
        Checkpoint {
            file: Arc::clone(&self.file),
            path: self.path.clone(),
            journal: self.journal.clone(),
            identity: self.identity,
            held: self.held.clone(),
        }
    }

    /// Converts a failure of the file into an error; a full disk is reported with its free space.
    pub(crate) fn failed(&self, action: &'static str, error: io::Error) -> StoreError {
        if !is_full(&error) {
            return StoreError::new(action, self.path.clone(), error);
        }
        let missing = self.size.saturating_sub(self.held.total());
        self.directory.full(missing)
    }

    /// Truncates the file to `size`, if its size was not known before.
    pub(crate) fn cut(&mut self, size: u64) -> Result<(), StoreError> {
        let cut = self.file.set_len(size);
        cut.map_err(|error| self.failed("cut", error))?;
        self.size = size;
        Ok(())
    }

    /// Allocates the space from `from` to `end`, for a file of unknown size, so that all transfers
    /// see that the space is used.
    pub(crate) fn take_room(&self, from: u64, end: u64) -> Result<(), StoreError> {
        let needed = end.saturating_sub(from);
        self.directory.check_room(needed)?;
        if !self.options.preallocate || needed == 0 {
            return Ok(());
        }
        match allocate(&self.file, FallocateFlags::KEEP_SIZE, from, needed) {
            // The file system cannot allocate: the bytes use space as they arrive.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            Err(errno) if is_full(&errno.into()) => Err(self.directory.full(needed)),
            Err(errno) => Err(self.failed("allocate", errno.into())),
        }
    }

    /// Returns the file's names on the disk, for removal elsewhere.
    pub(crate) fn remains(&self) -> Remains {
        Remains {
            directory: self.directory.clone(),
            name: self.name.clone(),
            journal: self.journal.clone(),
            _file: Arc::clone(&self.file),
        }
    }

    /// Removes the file and its journal.
    pub(crate) fn discard(&self) -> Result<(), StoreError> {
        self.remains().remove()
    }

    /// Sets time, permission bits and name of the complete file, durably.
    pub(crate) fn commit(&self) -> Result<(), ReceiveError> {
        set_time(&self.file, self.modified);
        self.file
            .set_permissions(Permissions::from_mode(self.mode))
            .map_err(|error| self.failed("set the permissions of", error))?;
        self.file
            .sync_all()
            .map_err(|error| self.failed("sync", error))?;
        if let Err(error) = self.rename() {
            // The file stays unfinished: the next attempt must be able to open it.
            let _ = self.file.set_permissions(Permissions::from_mode(0o600));
            return Err(error);
        }
        self.directory.sync()?;
        if let Err(error) = self.journal.remove() {
            tracing::debug!(%error, "cannot remove the journal of a complete file");
        }
        Ok(())
    }

    fn rename(&self) -> Result<(), ReceiveError> {
        let to = self.place.name().as_str();
        let renamed = if self.options.replace {
            self.directory.rename(&self.name, to)
        } else {
            self.directory.rename_to_free(&self.name, to)
        };
        renamed.map_err(|error| match error.kind() {
            io::ErrorKind::IsADirectory => ReceiveError::IsADirectory {
                name: self.place.to_string(),
            },
            io::ErrorKind::AlreadyExists => ReceiveError::Exists {
                name: self.place.to_string(),
            },
            _ => self.failed("rename", error).into(),
        })
    }
}

/// The names of an unfinished file.
#[derive(Debug)]
pub(crate) struct Remains {
    directory: Directory,
    name: String,
    journal: JournalFile,
    /// Disk space is freed, which takes time, when the last of these handles is closed.
    _file: Arc<File>,
}

impl Remains {
    /// Removes the file and its journal.
    pub(crate) fn remove(&self) -> Result<(), StoreError> {
        let removed = self.journal.remove();
        let removed = removed.and_then(|_| self.directory.remove(&self.name));
        removed
            .map(drop)
            .map_err(|error| StoreError::new("remove", self.directory.path_of(&self.name), error))
    }
}

/// Data to make one state of an unfinished file durable.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    file: Arc<File>,
    path: PathBuf,
    journal: JournalFile,
    identity: Identity,
    held: RangeSet,
}

impl Checkpoint {
    /// Syncs first the bytes, then the journal that records them.
    ///
    /// A journal that cannot be written, on a full disk, only costs bytes to send again after an
    /// interruption. It does not end a transfer whose own space is allocated.
    pub(crate) fn run(&self) -> io::Result<()> {
        self.file.sync_data()?;
        let (path, bytes) = (self.path.display(), self.held.total());
        match self.journal.save(self.identity, &self.held) {
            Ok(()) => tracing::trace!(%path, bytes, "checkpoint"),
            Err(error) => tracing::warn!(%path, %error, "cannot write the journal"),
        }
        Ok(())
    }
}

/// The disk space of a file.
struct Space<'a> {
    directory: &'a Directory,
    options: PartOptions,
    path: &'a PathBuf,
    size: u64,
}

impl Space<'_> {
    /// Refuses a file that does not fit; `taken` bytes are already allocated to it.
    fn check(&self, taken: u64) -> Result<(), StoreError> {
        let needed = self.size.saturating_sub(taken);
        self.directory.check_room(needed)
    }

    /// Gives the file its full length, and allocates its blocks where possible.
    fn take(&self, file: &File) -> Result<(), StoreError> {
        let failed = |error| StoreError::new("allocate", self.path.clone(), error);
        let metadata = file.metadata().map_err(failed)?;
        self.check(metadata.blocks().saturating_mul(STAT_BLOCK_BYTES))?;
        if self.options.preallocate && self.size > 0 {
            match allocate(file, FallocateFlags::empty(), 0, self.size) {
                Ok(()) => return Ok(()),
                // The file system cannot allocate: the bytes use space as they arrive.
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
                Err(errno) if is_full(&errno.into()) => {
                    return Err(self.directory.full(self.size));
                }
                Err(errno) => return Err(failed(errno.into())),
            }
        }
        file.set_len(self.size).map_err(failed)
    }
}

fn allocate(file: &File, flags: FallocateFlags, from: u64, length: u64) -> Result<(), Errno> {
    loop {
        match fallocate(file, flags, from, length) {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

/// Creates an empty part. Removes a file of that name, and before that, durably, the journal.
fn begin(
    directory: &Directory,
    name: &str,
    journal: &JournalFile,
    place: &EntryPath,
) -> Result<File, ReceiveError> {
    let failed = |action, name, error| StoreError::new(action, directory.path_of(name), error);
    let was_there = journal
        .remove()
        .map_err(|error| failed("remove", &journal.name, error))?;
    if was_there {
        directory.sync()?;
    }
    let removed = directory.remove(name);
    removed.map_err(|error| failed("remove", name, error))?;
    let file = directory
        .open_at(name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)
        .map_err(|error| {
            if is_full(&error) {
                directory.full(0)
            } else {
                failed("create", name, error)
            }
        })?;
    lock(&file, place)?;
    Ok(file)
}

/// Keeps other processes away from the file until it is closed.
fn lock(file: &File, place: &EntryPath) -> Result<(), ReceiveError> {
    for _ in 0..LOCK_TRIES {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            // A program that is just being started has copies of all descriptors for a moment, also
            // of a file that was closed meanwhile.
            Err(Errno::WOULDBLOCK) => std::thread::sleep(LOCK_PAUSE),
            // A file system without locks must not prevent transfers.
            _ => return Ok(()),
        }
    }
    Err(ReceiveError::Busy {
        name: place.to_string(),
    })
}

/// Rights of the owner on every file that is made here: otherwise the same file, sent again, could
/// not be compared with it.
const OWN_FILE_MODE: u32 = 0o400;
/// Number of attempts to get a lock that is taken.
const LOCK_TRIES: u32 = 10;
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// The unit of `st_blocks`, independent of the file system's block size.
const STAT_BLOCK_BYTES: u64 = 512;
