//! The receiver's side of the disk: the target directory, unfinished files, final names.

mod journal;
mod part;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, statvfs};

use super::content;
use super::error::StoreError;
use super::name::FileName;
use super::wire::Offer;
pub(super) use journal::{decode as decode_journal, encode as encode_journal};
pub(super) use part::{Part, PartOptions};

/// The directory that files are received into.
#[derive(Clone, Debug)]
pub(super) struct Directory {
    path: PathBuf,
    umask: u32,
}

/// What is under a file's final name.
pub(super) enum Existing {
    /// Nothing.
    Nothing,
    /// Something else: another size, other ends, or not a regular file at all.
    Different,
    /// A file that may well be the same; only its checksum can tell.
    Alike(File),
}

impl Directory {
    /// Takes an existing directory.
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        let failed = |source| StoreError::new("open the directory", path.to_owned(), source);
        let path = fs::canonicalize(path).map_err(failed)?;
        if !fs::metadata(&path).map_err(failed)?.is_dir() {
            return Err(failed(io::ErrorKind::NotADirectory.into()));
        }
        Ok(Self {
            path,
            umask: own_umask(),
        })
    }

    /// Where a file goes in the end.
    pub(super) fn final_path(&self, name: &FileName) -> PathBuf {
        self.path.join(name.as_str())
    }

    /// The permission bits that a received file gets.
    pub(super) fn mode_for(&self, offer: &Offer) -> u32 {
        offer.mode & 0o777 & !self.umask
    }

    /// Looks at what has the final name already.
    pub(super) fn existing(&self, offer: &Offer) -> Result<Existing, StoreError> {
        let path = self.final_path(&offer.name);
        let metadata = match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Existing::Nothing),
            Err(error) => return Err(StoreError::new("look at", path, error)),
            Ok(metadata) => metadata,
        };
        let size = offer.size.as_u64();
        if !metadata.is_file() || metadata.len() != size {
            return Ok(Existing::Different);
        }
        // A file that cannot be read cannot be shown to be the same.
        let alike = open_plainly(&path, false)
            .ok()
            .filter(|file| content::guard(file, size).is_ok_and(|guard| guard == offer.guard));
        Ok(alike.map_or(Existing::Different, Existing::Alike))
    }

    /// Removes what an earlier, unfinished transfer of this name left behind.
    pub(super) fn clean(&self, name: &FileName) {
        for leftover in [name.journal_draft(), name.journal(), name.part()] {
            match fs::remove_file(self.path.join(&leftover)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::debug!(leftover, %error, "an unfinished file stays behind");
                }
                _ => {}
            }
        }
    }

    /// Bytes that may still be stored without touching the reserve of `keep_free`.
    fn available(&self, keep_free: u64) -> Result<u64, StoreError> {
        let figures = statvfs(&self.path)
            .map_err(|errno| self.failed("ask for the free space of", errno.into()))?;
        let free = figures.f_bavail.saturating_mul(figures.f_frsize);
        Ok(free.saturating_sub(keep_free))
    }

    /// Makes created, removed and renamed names durable.
    fn sync(&self) -> Result<(), StoreError> {
        File::open(&self.path)
            .and_then(|directory| directory.sync_all())
            .map_err(|error| self.failed("sync the directory", error))
    }

    fn failed(&self, action: &'static str, source: io::Error) -> StoreError {
        StoreError::new(action, self.path.clone(), source)
    }
}

/// Opens a regular file and nothing else: follows no link, waits for no pipe.
fn open_plainly(path: &Path, write: bool) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;

    let file = File::options()
        .read(true)
        .write(write)
        .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32)
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(file)
}

/// The process's umask. Asking for it by `umask(2)` would change it for a moment, for all threads.
fn own_umask() -> u32 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("Umask:"))
        .and_then(|digits| u32::from_str_radix(digits.trim(), 8).ok())
        .unwrap_or(DEFAULT_UMASK)
}

/// Where `/proc` is not there: what most systems have.
const DEFAULT_UMASK: u32 = 0o022;
