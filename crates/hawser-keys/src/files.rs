//! Files that are written whole or not at all, and private directories.

pub(crate) mod faults;

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use faults::{Step, allowed};
use rustix::io::Errno;
use tempfile::{Builder, NamedTempFile};

use rustix::fs::{FlockOperation, flock};

/// Why a private file or directory could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The operating system refused; `action` is a verb.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The operation: "read", "write", …
        action: &'static str,
        /// The file or directory it was tried on.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The permission bits let others read or write.
    #[error(
        "{} has mode {mode:04o}, at most {allowed:04o} is allowed; run: chmod {allowed:o} {}",
        path.display(), path.display()
    )]
    TooOpen {
        /// The file or directory.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
        /// The most open mode that is accepted.
        allowed: u32,
    },
    /// The file belongs to another user, who could change it at any time.
    #[error("{} belongs to user {owner}, must belong to user {expected}", path.display())]
    WrongOwner {
        /// The file.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// The effective user of this process.
        expected: u32,
    },
    /// The file is larger than this program ever writes it.
    #[error(
        "{} is larger than {limit} bytes, which is not a file of this program; put back a copy, \
         or move it away",
        path.display()
    )]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The largest size accepted.
        limit: u64,
    },
    /// Another process has held the lock for too long.
    #[error("{} has been locked by another process for {waited:?}", path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// Time waited for the lock.
        waited: Duration,
    },
}

impl FileError {
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io {
            action,
            path: path.to_path_buf(),
            source,
        }
    }

    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// Returns whether the file itself may be intact: the system lacks a resource for now.
    pub(crate) fn is_passing(&self) -> bool {
        let passing = [
            Errno::MFILE,
            Errno::NFILE,
            Errno::NOMEM,
            Errno::IO,
            Errno::STALE,
        ];
        let is_one = |source| Errno::from_io_error(source).is_some_and(|it| passing.contains(&it));
        matches!(self, Self::Io { source, .. } if is_one(source))
    }

    pub(crate) fn is_already_there(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::AlreadyExists)
    }
}

/// Creates `dir` and its missing parents with mode 0700. An existing directory keeps its mode, but
/// is refused when every user may write to it.
pub(crate) fn private_dir(dir: &Path) -> Result<(), FileError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|e| FileError::io("create directory", dir, e))?;
    let mode = fs::metadata(dir)
        .map_err(|e| FileError::io("look at", dir, e))?
        .mode()
        & 0o7777;
    if mode & 0o002 != 0 {
        return Err(FileError::TooOpen {
            path: dir.to_path_buf(),
            mode,
            allowed: 0o700,
        });
    }
    Ok(())
}

/// Replaces the file `path` by `bytes`, mode 0600: a reader, or this program after a crash, finds
/// either all of the old bytes or all of the new ones.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    persist(written_temporary(path, bytes)?, path)
}

/// As [`replace`], for a file of a state directory: see [`leave_to_owner`].
pub(crate) fn replace_state(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let temporary = written_temporary(path, bytes)?;
    leave_to_owner(temporary.as_file(), path);
    persist(temporary, path)
}

/// Replaces the file `path` of a state directory by `bytes` where its content differs: a start then
/// writes only changes, so it does not depend on free disk space.
///
/// # Errors
/// The file cannot be written; it then holds the old bytes or the new ones.
pub fn replace_if_changed(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let limit = bytes.len() as u64;
    // Reads neither a pipe nor the target of a symbolic link.
    let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW;
    let there = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let there = there.ok();
    let there = there.and_then(|file| read_bounded(&file, path, limit).ok());
    if there.as_deref() == Some(bytes) {
        Ok(())
    } else {
        replace_state(path, bytes)
    }
}

/// As [`replace_state`], but fails with [`FileError::is_already_there`] when the file exists.
pub(crate) fn create_new(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let temporary = written_temporary(path, bytes)?;
    leave_to_owner(temporary.as_file(), path);
    allowed(Step::Rename)
        .and_then(|()| Ok(temporary.persist_noclobber(path)?))
        .map_err(|e| FileError::io("create", path, e))?;
    sync_parent(path)
}

/// Opens `path`, which must belong to this process's user or root, with no permission bit set that
/// `allowed` lacks. Root may also open a file that belongs to the owner of the directory.
pub(crate) fn open_private(path: &Path, allowed: u32) -> Result<File, FileError> {
    // Not blocking: a named pipe under this name must not hang the program.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
        .map_err(|e| FileError::io("open", path, e))?;
    let metadata = file
        .metadata()
        .map_err(|e| FileError::io("look at", path, e))?;
    let mode = metadata.mode() & 0o7777;
    if mode & !allowed & 0o077 != 0 {
        return Err(FileError::TooOpen {
            path: path.to_path_buf(),
            mode,
            allowed,
        });
    }
    let (owner, expected) = (metadata.uid(), rustix::process::geteuid().as_raw());
    let is_of_directory = || fs::metadata(parent(path)).is_ok_and(|dir| dir.uid() == owner);
    if owner != expected && owner != 0 && !(expected == 0 && is_of_directory()) {
        return Err(FileError::WrongOwner {
            path: path.to_path_buf(),
            owner,
            expected,
        });
    }
    Ok(file)
}

/// Reads the rest of `file`, refusing more than `limit` bytes; `path` is for the error.
pub fn read_bounded(file: &File, path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
    let mut bytes = Vec::new();
    file.take(limit + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| FileError::io("read", path, e))?;
    if bytes.len() as u64 > limit {
        return Err(FileError::TooLarge {
            path: path.to_path_buf(),
            limit,
        });
    }
    Ok(bytes)
}

/// Takes the lock file `path`, created when missing; dropping the file releases the lock.
pub(crate) fn lock(path: &Path) -> Result<File, FileError> {
    let file = open_lock(path).map_err(|e| FileError::io("open", path, e))?;
    let started = Instant::now();
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(io::Error::from) {
            Ok(()) => return Ok(file),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) if e.kind() != io::ErrorKind::WouldBlock => {
                return Err(FileError::io("lock", path, e));
            }
            Err(_) if started.elapsed() > LOCK_PATIENCE => {
                let waited = started.elapsed();
                return Err(FileError::Locked {
                    path: path.to_path_buf(),
                    waited,
                });
            }
            Err(_) => thread::sleep(LOCK_POLL),
        }
    }
}

fn open_lock(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    // Root takes locks in directories of other users, and must not follow their symbolic links.
    options.custom_flags(libc::O_NOFOLLOW);
    match options.clone().create_new(true).open(path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => options.open(path),
        made => made.inspect(|file| leave_to_owner(file, path)),
    }
}

fn written_temporary(path: &Path, bytes: &[u8]) -> Result<NamedTempFile, FileError> {
    // In the same directory, since a rename cannot cross file systems. Made with mode 0600.
    let mut temporary = allowed(Step::Create)
        .and_then(|()| Builder::new().prefix(".hawser-").tempfile_in(parent(path)))
        .map_err(|e| FileError::io("create a file beside", path, e))?;
    write_and_sync(&mut temporary, bytes).map_err(|e| FileError::io("write", path, e))?;
    Ok(temporary)
}

fn write_and_sync(temporary: &mut NamedTempFile, bytes: &[u8]) -> io::Result<()> {
    allowed(Step::Write)?;
    temporary.write_all(bytes)?;
    allowed(Step::Sync)?;
    temporary.as_file().sync_all()
}

/// Gives a file that root writes into another user's (such as a service's) state directory to that
/// user, who could not read it otherwise. If root may not do that, root keeps the file.
///
/// Call it only for a file that this process has created: another one might be a link that the user
/// has put there.
fn leave_to_owner(file: &File, path: &Path) {
    if rustix::process::geteuid().as_raw() == 0
        && let Ok(dir) = fs::metadata(parent(path))
    {
        let _ = fchown(file, Some(dir.uid()), Some(dir.gid()));
    }
}

fn persist(temporary: NamedTempFile, path: &Path) -> Result<(), FileError> {
    allowed(Step::Rename)
        .and_then(|()| Ok(temporary.persist(path)?))
        .map_err(|e| FileError::io("write", path, e))?;
    sync_parent(path)
}

/// Syncs the directory: without this the rename itself may be lost when the machine stops.
fn sync_parent(path: &Path) -> Result<(), FileError> {
    let dir = parent(path);
    allowed(Step::SyncDirectory)
        .and_then(|()| File::open(dir)?.sync_all())
        .map_err(|e| FileError::io("sync", dir, e))
}

/// Returns the directory of `path`, as a path that can be opened.
pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    }
}

/// A holder only rewrites a small file, so a longer wait means that something is stuck.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);
const LOCK_POLL: Duration = Duration::from_millis(5);
