//! A value in a JSON file that several processes change.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::dir::StateDir;
use super::error::{StoreError, VERSION};
use super::later_fields::LaterFields;
use super::state_file::{ASIDE, StateFile, WhenDamaged};
use crate::files::{self, FileError};

/// The content of a JSON file.
pub(super) trait Stored: Clone + Default + PartialEq + Serialize + DeserializeOwned {
    /// Returns the fields that this version does not know, of the value and of each of its entries.
    fn later_fields(&self) -> impl Iterator<Item = &LaterFields>;
}

/// The value of a JSON file; changes never lose another process's change, nor the fields of a later
/// version.
#[derive(Debug)]
pub(super) struct JsonFile<T> {
    file: StateFile,
    path: PathBuf,
    /// Only ever replaced whole, so that it is valid after a panic of another thread.
    cached: Mutex<Cached<T>>,
}

#[derive(Debug, Default)]
struct Cached<T> {
    value: T,
    stamp: Option<Stamp>,
}

/// Identity of the file when it was read. The file is kept open, so that its inode number is not
/// reused for the file that replaces it, and every change is noticed.
#[derive(Debug)]
struct Stamp {
    _open: File,
    identity: FileIdentity,
}

#[derive(PartialEq, Eq, Debug)]
struct FileIdentity {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

#[derive(Deserialize)]
struct VersionOnly {
    version: u64,
}

impl<T: Stored> JsonFile<T> {
    /// Reads the file; a missing file holds the default value.
    pub(super) fn open(dir: &StateDir, file: StateFile) -> Result<Self, StoreError> {
        let path = dir.file(file.name());
        let cached: Cached<T> = load(&path).or_else(|_| {
            // Another process may be about to replace the file. A second read counts even without
            // the lock, which cannot be taken on a full disk for example.
            let _lock = files::lock(&path.with_extension("lock"));
            load(&path).or_else(|error| begin_anew(file, &path, error))
        })?;
        let later = cached.value.later_fields();
        let names: BTreeSet<&str> = later.flat_map(LaterFields::names).collect();
        if !names.is_empty() {
            let path = path.display();
            tracing::warn!(file = %path, ?names, "keeping fields that a later version has written");
        }
        let cached = Mutex::new(cached);
        Ok(Self { file, path, cached })
    }

    /// Reads the value as it was last loaded.
    pub(super) fn read<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&self.cached.lock().value)
    }

    /// Reads the file again if it was replaced; returns whether it was.
    pub(super) fn reload_if_changed(&self) -> Result<bool, StoreError> {
        let mut cached = self.cached.lock();
        let changed = self.is_changed(&cached)?;
        if changed {
            let loaded = load(&self.path);
            *cached = loaded.or_else(|error| match error {
                // For example no descriptor is left: the file itself may be intact.
                StoreError::File(FileError::Io { .. }) => Err(error),
                _ => begin_anew(self.file, &self.path, error),
            })?;
        }
        Ok(changed)
    }

    /// Changes the newest value, and writes it before this returns. When `change` fails or leaves
    /// the value unchanged, nothing is written. When writing fails, file and memory both have the
    /// old value or both the new one.
    pub(super) fn update<R, E: From<StoreError>>(
        &self,
        change: impl FnOnce(&mut T) -> Result<R, E>,
    ) -> Result<R, E> {
        files::private_dir(files::parent(&self.path)).map_err(StoreError::from)?;
        // The lock serialises writers, including those of this process. Readers never wait for a
        // disk or for another process.
        let _lock = files::lock(&self.path.with_extension("lock")).map_err(StoreError::from)?;
        self.reload_if_changed()?;
        let old = self.read(T::clone);
        let mut new = old.clone();
        let result = change(&mut new)?;
        if new != old {
            let outcome = self.write(&new);
            // Reloads even after a failure: the file may have been replaced before it, and memory
            // must match what a restart would find.
            let written = load(&self.path)?;
            *self.cached.lock() = written;
            outcome?;
        }
        Ok(result)
    }

    fn write(&self, value: &T) -> Result<(), StoreError> {
        let mut text = serde_json::to_string_pretty(value)
            .map_err(|e| FileError::io("write", &self.path, io::Error::other(e)))?;
        text.push('\n');
        Ok(files::replace_state(&self.path, text.as_bytes())?)
    }

    fn is_changed(&self, cached: &Cached<T>) -> Result<bool, StoreError> {
        let now = match fs::metadata(&self.path) {
            Ok(metadata) => Some(FileIdentity::of(&metadata)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(FileError::io("look at", &self.path, e).into()),
        };
        Ok(now.as_ref() != cached.stamp.as_ref().map(|stamp| &stamp.identity))
    }
}

impl FileIdentity {
    fn of(metadata: &fs::Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}

/// Sets an invalid file aside if it is only a cache, and begins with the default value. A file that
/// other users may write is still refused, since its content cannot be trusted.
fn begin_anew<T: Default>(
    file: StateFile,
    path: &Path,
    error: StoreError,
) -> Result<Cached<T>, StoreError> {
    let is_refused = matches!(
        error,
        StoreError::File(FileError::TooOpen { .. } | FileError::WrongOwner { .. })
    );
    if file.when_damaged() != WhenDamaged::SetAside || is_refused {
        return Err(error);
    }
    let begun = Cached::default();
    if matches!(&error, StoreError::File(error) if error.is_passing()) {
        // The file is read again later.
        tracing::warn!(%error, "can't read a state file, starting without its content");
        return Ok(begun);
    }
    let mut aside = path.as_os_str().to_owned();
    aside.push(ASIDE);
    let what = file.without_it();
    match fs::rename(path, &aside) {
        Ok(()) => {
            let aside = Path::new(&aside).display();
            tracing::warn!(%error, %aside, "set aside an unusable state file: {what}");
        }
        // The file may have vanished, or the disk cannot be written.
        Err(refused) => {
            tracing::warn!(%error, %refused, "starting without an unusable state file: {what}");
        }
    }
    Ok(begun)
}

fn load<T: Default + DeserializeOwned>(path: &Path) -> Result<Cached<T>, StoreError> {
    let file = match files::open_private(path, 0o644) {
        Ok(file) => file,
        Err(e) if e.is_not_found() => {
            return Ok(Cached::default());
        }
        Err(e) => return Err(e.into()),
    };
    let metadata = file
        .metadata()
        .map_err(|e| FileError::io("look at", path, e))?;
    let bytes = files::read_bounded(&file, path, MAX_FILE)?;
    let value = parse(path, &bytes)?;
    let identity = FileIdentity::of(&metadata);
    Ok(Cached {
        value,
        stamp: Some(Stamp {
            _open: file,
            identity,
        }),
    })
}

fn parse<T: DeserializeOwned>(path: &Path, bytes: &[u8]) -> Result<T, StoreError> {
    let corrupt = |e: serde_json::Error| StoreError::Corrupt {
        path: path.to_path_buf(),
        reason: e.to_string(),
    };
    // Parsed separately, since a later version may have any other shape.
    let VersionOnly { version } = serde_json::from_slice(bytes).map_err(corrupt)?;
    if version > VERSION {
        return Err(StoreError::Version {
            path: path.to_path_buf(),
            got: version,
        });
    }
    serde_json::from_slice(bytes).map_err(corrupt)
}

/// Far more than the largest number of entries takes.
const MAX_FILE: u64 = 32 << 20;

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn a_file_is_set_aside_unless_the_system_lacks_something_for_now() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("order.json");
        for (errno, is_left) in [
            (Errno::MFILE, true),
            (Errno::IO, true),
            (Errno::ISDIR, false),
        ] {
            fs::write(&path, "{}").unwrap();
            let error = FileError::io("read", &path, errno.into());
            let begun = begin_anew::<u8>(StateFile::Order, &path, error.into());
            assert!(begun.unwrap().stamp.is_none(), "{errno}");
            assert_eq!(path.exists(), is_left, "{errno}");
        }
    }
}
