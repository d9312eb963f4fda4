//! The shim as a file that programs can load.

use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::StatVfsMountFlags;
use tempfile::TempDir;

/// The shim in its own folder, which is removed when this is dropped.
#[derive(Debug)]
pub struct ShimFile {
    // Dropped with the file in it.
    _folder: TempDir,
    path: PathBuf,
}

/// Reason why the shim's file cannot be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShimError {
    /// The folder is not executable, or its name has a character that loaders treat as a separator.
    #[error("programs can't load a library from {0}")]
    Unsuitable(PathBuf),
    /// The folder or the file in it cannot be written.
    #[error("can't write the library for programs in {folder}: {source}")]
    Write {
        /// Parent folder.
        folder: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}

impl ShimFile {
    /// Writes the shim to a new folder in `folder`. It is readable by all and writable by the user
    /// only: programs that change their user load it again.
    ///
    /// # Errors
    /// When the folder or the file cannot be written.
    pub fn write(folder: &Path) -> Result<Self, ShimError> {
        sweep(folder);
        let lay_out = || -> io::Result<Self> {
            let prefix = format!("{PREFIX}{}-", std::process::id());
            let own = tempfile::Builder::new()
                .prefix(&prefix)
                .tempdir_in(folder)?;
            let path = own.path().join("shim.so");
            fs::write(&path, SHIM)?;
            fs::set_permissions(&path, Permissions::from_mode(0o555))?;
            fs::set_permissions(own.path(), Permissions::from_mode(0o711))?;
            Ok(Self { _folder: own, path })
        };
        lay_out().map_err(|source| ShimError::Write {
            folder: folder.to_owned(),
            source,
        })
    }

    /// Writes the shim to the first of these folders that programs can load it from.
    ///
    /// # Errors
    /// Fails with the last folder's error if programs can load it from none of the folders.
    pub fn write_in_one_of(folders: &[PathBuf]) -> Result<Self, ShimError> {
        let mut problem = ShimError::Unsuitable(PathBuf::new());
        for folder in folders {
            let written = if is_suitable(folder) {
                Self::write(folder)
            } else {
                Err(ShimError::Unsuitable(folder.clone()))
            };
            match written {
                Ok(file) => return Ok(file),
                Err(error) => problem = error,
            }
        }
        Err(problem)
    }

    /// Returns the path of the shim's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the value of `LD_PRELOAD` that loads the shim after existing entries.
    pub fn preload(&self, before: Option<&OsStr>) -> OsString {
        let mut all = before.unwrap_or_default().to_owned();
        if !all.is_empty() {
            all.push(":");
        }
        all.push(&self.path);
        all
    }
}

fn is_suitable(folder: &Path) -> bool {
    let name = folder.to_str();
    let separates = |c: char| c.is_whitespace() || c == ':';
    let executable = rustix::fs::statvfs(folder)
        .is_ok_and(|system| !system.f_flag.contains(StatVfsMountFlags::NOEXEC));
    executable && name.is_some_and(|name| !name.contains(separates))
}

/// Removes leftovers of killed processes.
fn sweep(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let owner = owner.and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if owner.is_some_and(|id| !Path::new(&format!("/proc/{id}")).exists()) {
            // Another user's folder cannot be removed, which is intended.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

const SHIM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/shim.so"));
const PREFIX: &str = "hawser-shim-";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_goes_with_its_owner_and_what_was_left_is_swept() {
        let folder = tempfile::tempdir().unwrap();
        // Beyond the largest number of a process.
        let left = folder.path().join("hawser-shim-4294967295-x");
        fs::create_dir(&left).unwrap();
        let other = folder.path().join("hawser-shim-of-mine");
        fs::create_dir(&other).unwrap();
        let shim = ShimFile::write(folder.path()).unwrap();
        let again = ShimFile::write(folder.path()).unwrap();
        assert!(!left.exists() && other.exists() && shim.path().exists());
        let mode = fs::metadata(shim.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o555);
        let path = shim.path().to_owned();
        drop(shim);
        assert!(!path.exists() && again.path().exists());
    }

    #[test]
    fn what_the_user_loads_already_stays_in_front() {
        let shim = ShimFile::write(&std::env::temp_dir()).unwrap();
        let path = shim.path().to_str().unwrap();
        assert_eq!(shim.preload(None), path);
        let both = shim.preload(Some(OsStr::new("/lib/other.so")));
        assert_eq!(both, format!("/lib/other.so:{path}").as_str());
    }

    #[test]
    fn folders_that_loaders_would_misread_are_passed_over() {
        let good = tempfile::tempdir().unwrap();
        let bad = tempfile::Builder::new().prefix("a b").tempdir().unwrap();
        let folders = [bad.path(), good.path()].map(Path::to_owned);
        let shim = ShimFile::write_in_one_of(&folders).unwrap();
        assert!(shim.path().starts_with(good.path()));
        assert!(ShimFile::write_in_one_of(&folders[..1]).is_err());
    }

    #[test]
    fn nowhere_to_write_is_said() {
        let error = ShimFile::write(Path::new("/nowhere")).unwrap_err();
        assert!(error.to_string().contains("/nowhere"), "{error}");
    }
}
