//! An open directory, and operations on the names in it.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use hawser_types::ByteCount;
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RenameFlags, StatVfs, fstatvfs, linkat, mkdirat, openat,
    readlinkat, renameat, renameat_with, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;

use crate::content;
use crate::error::{ReceiveError, StoreError, is_full};
use crate::name::FileName;
use crate::wire::{FileTime, Offer};

/// A directory that files are received into: the receiver's own, or one below it.
///
/// It is held open, and every name is looked up in it only. So another directory or a symbolic link
/// that takes its place meanwhile has no effect.
#[derive(Clone, Debug)]
pub(crate) struct Directory {
    handle: Arc<File>,
    /// For messages.
    path: PathBuf,
    umask: u32,
    /// Bytes that must stay free on the disk.
    keep_free: u64,
}

/// A directory that was looked for.
pub(crate) struct Entry {
    /// The directory.
    pub(crate) directory: Directory,
    /// True if it was made just now.
    pub(crate) is_new: bool,
}

/// The entry under a file's final name.
pub(crate) enum Existing {
    /// Nothing.
    Nothing,
    /// A different entry: another size, other ends, or neither a regular file nor a directory.
    Different,
    /// A directory. It is never replaced, even if files are.
    Directory,
    /// A file that is probably the same; only its checksum can tell.
    Alike(File),
}

impl Directory {
    /// Opens an existing directory. Follows symbolic links: the path is the user's own.
    ///
    /// No file is made that would leave fewer than `keep_free` bytes of its disk.
    pub(crate) fn open(path: &Path, keep_free: u64) -> Result<Self, StoreError> {
        let failed = |source| StoreError::new("open the directory", path.to_owned(), source);
        let path = fs::canonicalize(path).map_err(failed)?;
        let handle = File::open(&path).map_err(failed)?;
        if !handle.metadata().map_err(failed)?.is_dir() {
            return Err(failed(io::ErrorKind::NotADirectory.into()));
        }
        Ok(Self {
            handle: Arc::new(handle),
            path,
            umask: own_umask(),
            keep_free,
        })
    }

    /// Opens the directory again by its path: it may have been replaced meanwhile.
    pub(crate) fn again(&self) -> Result<Self, StoreError> {
        Self::open(&self.path, self.keep_free)
    }

    /// Opens a directory in this one; a missing one is made with these permission bits. Does not
    /// follow a symbolic link.
    pub(crate) fn enter(&self, name: &FileName, mode: u32) -> Result<Entry, ReceiveError> {
        let mut is_new = false;
        let mut opened = self.open_folder(name);
        if matches!(opened, Err(Errno::NOENT)) {
            self.check_entry()?;
            is_new = match mkdirat(&self.handle, name.as_str(), Mode::from_raw_mode(mode)) {
                Ok(()) => true,
                Err(Errno::EXIST) => false,
                Err(errno) => {
                    return Err(self
                        .failed("make the directory", name.as_str(), errno)
                        .into());
                }
            };
            opened = self.open_folder(name);
        }
        let handle = opened.map_err(|errno| match errno {
            Errno::NOTDIR | Errno::LOOP => ReceiveError::NotADirectory {
                path: self.path_of(name.as_str()),
            },
            _ => self
                .failed("open the directory", name.as_str(), errno)
                .into(),
        })?;
        if is_new {
            self.sync()?;
        }
        let directory = Self {
            handle: Arc::new(handle),
            path: self.path_of(name.as_str()),
            umask: self.umask,
            keep_free: self.keep_free,
        };
        Ok(Entry { directory, is_new })
    }

    fn open_folder(&self, name: &FileName) -> Result<File, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(&self.handle, name.as_str(), flags, Mode::empty()).map(File::from)
    }

    /// Path of a name in this directory, for messages.
    pub(crate) fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Returns the identity of the directory, even if its path is reused: device, inode number, and
    /// creation time, since an inode number may be reused.
    pub(crate) fn mark(&self) -> io::Result<(u64, u64, Option<SystemTime>)> {
        use std::os::unix::fs::MetadataExt;

        let metadata = self.handle.metadata()?;
        Ok((metadata.dev(), metadata.ino(), metadata.created().ok()))
    }

    /// Sets the permission bits; the owner always keeps full access.
    pub(crate) fn set_mode(&self, mode: u32) -> Result<(), StoreError> {
        let failed = |error| StoreError::new("set the permissions of", self.path.clone(), error);
        // Inherited bits stay, such as set-group-ID, which gives new files the directory's group.
        let inherited = self.handle.metadata().map_err(failed)?.permissions().mode() & 0o7000;
        let mode = inherited | self.allowed_mode(mode) | OWN_DIRECTORY_MODE;
        let permissions = Permissions::from_mode(mode);
        self.handle.set_permissions(permissions).map_err(failed)
    }

    /// Sets the modification time.
    pub(crate) fn set_time(&self, time: FileTime) {
        set_time(&self.handle, time);
    }

    /// Reduces the permission bits that a sender names: no set-user-ID, set-group-ID or sticky bit,
    /// and the umask is applied.
    pub(crate) fn allowed_mode(&self, mode: u32) -> u32 {
        mode & 0o777 & !self.umask
    }

    /// Examines the entry that has the final name already.
    pub(crate) fn existing(&self, offer: &Offer) -> Result<Existing, StoreError> {
        let name = offer.path.name().as_str();
        let stat = match statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(Existing::Nothing),
            Err(errno) => return Err(self.failed("look at", name, errno)),
            Ok(stat) => stat,
        };
        let size = offer.size.as_u64();
        let kind = FileType::from_raw_mode(stat.st_mode);
        if kind == FileType::Directory {
            return Ok(Existing::Directory);
        }
        if kind != FileType::RegularFile || u64::try_from(stat.st_size) != Ok(size) {
            return Ok(Existing::Different);
        }
        // A file that cannot be read counts as different.
        let alike = self
            .open_plainly(name, false)
            .ok()
            .filter(|file| content::guard(file, size).is_ok_and(|guard| guard == offer.guard));
        Ok(alike.map_or(Existing::Different, Existing::Alike))
    }

    /// Makes a symbolic link, atomically. `false`: the same link exists.
    ///
    /// An entry with this name is replaced if `replace` is set; otherwise it is
    /// [`ReceiveError::Exists`]. A directory is never replaced: [`ReceiveError::IsADirectory`].
    pub(crate) fn link(
        &self,
        offer: &Offer,
        target: &str,
        replace: bool,
    ) -> Result<bool, ReceiveError> {
        let name = offer.path.name();
        let known = readlinkat(&self.handle, name.as_str(), Vec::new());
        if known.is_ok_and(|known| known.as_bytes() == target.as_bytes()) {
            return Ok(false);
        }
        self.check_entry()?;
        let made = if replace {
            self.link_in_place(name, target)
        } else {
            symlinkat(target, &self.handle, name.as_str())
        };
        made.map_err(|errno| {
            let shown = || offer.path.to_string();
            match errno {
                Errno::EXIST => ReceiveError::Exists { name: shown() },
                Errno::ISDIR => ReceiveError::IsADirectory { name: shown() },
                errno => self
                    .failed("make the symbolic link", name.as_str(), errno)
                    .into(),
            }
        })?;
        self.sync()?;
        Ok(true)
    }

    /// Makes a symbolic link under a temporary name, and renames it over the existing entry.
    fn link_in_place(&self, name: &FileName, target: &str) -> Result<(), Errno> {
        let (here, draft) = (&self.handle, name.part());
        let remove = || unlinkat(here, &draft, AtFlags::empty());
        match remove() {
            Ok(()) | Err(Errno::NOENT) => {}
            other => return other,
        }
        symlinkat(target, here, &draft)?;
        renameat(here, &draft, here, name.as_str()).inspect_err(|_| {
            let _ = remove();
        })
    }

    /// Removes the files of an earlier, unfinished transfer of this name.
    pub(crate) fn clean(&self, name: &FileName) {
        for leftover in [name.journal_draft(), name.journal(), name.part()] {
            if let Err(error) = self.remove(&leftover) {
                tracing::debug!(leftover, %error, "cannot remove an unfinished file");
            }
        }
    }

    /// Opens a regular file and no other entry: follows no link, waits for no pipe.
    pub(super) fn open_plainly(&self, name: &str, write: bool) -> io::Result<File> {
        let access = if write { OFlags::RDWR } else { OFlags::RDONLY };
        let file = self.open_at(name, access | OFlags::NONBLOCK)?;
        if !file.metadata()?.is_file() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(file)
    }

    /// Opens a file; a new file is accessible to the user alone.
    pub(super) fn open_at(&self, name: &str, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        Ok(openat(&self.handle, name, flags, mode)?.into())
    }

    /// Removes a name that is no directory; returns whether it existed.
    pub(super) fn remove(&self, name: &str) -> io::Result<bool> {
        match unlinkat(&self.handle, name, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Renames within this directory, replacing an entry of the new name.
    pub(super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(renameat(&self.handle, from, &self.handle, to)?)
    }

    /// Renames within this directory, unless the new name exists.
    pub(super) fn rename_to_free(&self, from: &str, to: &str) -> io::Result<()> {
        let here = &self.handle;
        match renameat_with(here, from, here, to, RenameFlags::NOREPLACE) {
            // File systems without that flag (NFS, some FUSE): a hard link replaces no file,
            // either.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                linkat(here, from, here, to, AtFlags::empty())?;
                self.remove(from).map(drop)
            }
            other => Ok(other?),
        }
    }

    /// Refuses to store `needed` bytes if that would use the reserve.
    pub(super) fn check_room(&self, needed: u64) -> Result<(), StoreError> {
        if needed <= self.available(&self.figures()?) {
            Ok(())
        } else {
            Err(self.full(needed))
        }
    }

    /// Returns the error of a disk or quota without space for `needed` bytes.
    pub(super) fn full(&self, needed: u64) -> StoreError {
        let available = self.figures().map_or(0, |it| self.available(&it));
        StoreError::DiskFull {
            directory: self.path.clone(),
            needed: ByteCount::new(needed),
            available: ByteCount::new(available),
        }
    }

    /// Bytes that may still be stored without using the reserve.
    fn available(&self, figures: &StatVfs) -> u64 {
        // Some file systems have no limit, and report 0.
        if figures.f_blocks == 0 {
            return u64::MAX;
        }
        let free = figures.f_bavail.saturating_mul(figures.f_frsize);
        free.saturating_sub(self.keep_free)
    }

    /// Refuses to make a file, link or directory, however small, if that would use the reserve, or
    /// if the file system has few free inodes left.
    pub(super) fn check_entry(&self) -> Result<(), StoreError> {
        self.check_room(ENTRY_BYTES)?;
        let figures = self.figures()?;
        // Some file systems have no limit, and report 0.
        let keep = KEEP_FREE_ENTRIES.min(figures.f_files / KEEP_FREE_SHARE);
        if figures.f_files > 0 && figures.f_favail <= keep {
            Err(StoreError::TooManyEntries {
                directory: self.path.clone(),
            })
        } else {
            Ok(())
        }
    }

    fn figures(&self) -> Result<StatVfs, StoreError> {
        fstatvfs(&self.handle).map_err(|errno| self.here("ask for the free space of", errno.into()))
    }

    /// Makes created, removed and renamed names durable.
    pub(super) fn sync(&self) -> Result<(), StoreError> {
        self.handle
            .sync_all()
            .map_err(|error| self.here("sync the directory", error))
    }

    fn here(&self, action: &'static str, source: io::Error) -> StoreError {
        StoreError::new(action, self.path.clone(), source)
    }

    fn failed(&self, action: &'static str, name: &str, errno: Errno) -> StoreError {
        let error = errno.into();
        if is_full(&error) {
            self.full(ENTRY_BYTES)
        } else {
            StoreError::new(action, self.path_of(name), error)
        }
    }
}

/// Sets the time of a file or directory. A time that the file system cannot store is no failure.
pub(super) fn set_time(file: &File, time: FileTime) {
    if let Some(Err(error)) = time.as_system_time().map(|time| file.set_modified(time)) {
        tracing::debug!(%error, "cannot set the modification time");
    }
}

/// Reads the process's umask. `umask(2)` would change it for a moment, for all threads.
fn own_umask() -> u32 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("Umask:"))
        .and_then(|digits| u32::from_str_radix(digits.trim(), 8).ok())
        .unwrap_or(DEFAULT_UMASK)
}

/// Used without `/proc`: the umask of most systems.
const DEFAULT_UMASK: u32 = 0o022;
/// Rights of the owner on every directory that is made here: otherwise it could not be filled.
const OWN_DIRECTORY_MODE: u32 = 0o700;
/// Space of an empty file, link or directory: a block, as most file systems have it.
const ENTRY_BYTES: u64 = 4096;
/// Inodes that must stay free on the file system …
const KEEP_FREE_ENTRIES: u64 = 1000;
/// … or this fraction (1/16) of all its inodes, if that is less.
const KEEP_FREE_SHARE: u64 = 16;
