use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::error::StoreError;
use super::secret;
use crate::files;
use crate::identity::{Identity, IdentityError};

/// The directory of all state of one host; a running daemon is found through it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StateDir {
    path: PathBuf,
}

impl StateDir {
    /// Returns the directory to use: `explicit`; else `/var/lib/hawser` for root; else
    /// `$XDG_STATE_HOME/hawser`, by default `~/.local/state/hawser`. Creates nothing.
    pub fn resolve(explicit: Option<PathBuf>) -> Result<Self, StoreError> {
        Self::choose(explicit, rustix::process::geteuid().is_root(), |name| {
            env::var_os(name)
        })
    }

    fn choose(
        explicit: Option<PathBuf>,
        is_root: bool,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, StoreError> {
        // The XDG specification demands that relative paths are ignored.
        let absolute = |name| {
            variable(name)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        let path = match explicit {
            Some(path) => path,
            None if is_root => PathBuf::from(ROOT_DIR),
            None => absolute("XDG_STATE_HOME")
                .or_else(|| Some(absolute("HOME")?.join(".local/state")))
                .ok_or(StoreError::NoHome)?
                .join("hawser"),
        };
        Ok(Self { path })
    }

    /// Creates the directory with mode 0700 when it is missing; refuses one that every user may
    /// write to.
    pub fn prepare(&self) -> Result<(), StoreError> {
        Ok(files::private_dir(&self.path)?)
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether this is the system's directory, `/var/lib/hawser`.
    pub fn is_system(&self) -> bool {
        self.path == Path::new(ROOT_DIR)
    }

    /// Returns the path of the file `name` in the directory.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Returns this host's identity, created at the first call; see [`Identity::load_or_create`].
    pub fn identity(&self) -> Result<Identity, IdentityError> {
        Identity::load_or_create(&self.file("key"))
    }

    /// Returns 256 random bits as text (base64url without padding, 43 characters): the content of
    /// the file `name`, mode 0600, which is created at the first call. The bits prove that a
    /// process can read the directory.
    pub fn secret(&self, name: &str) -> Result<Zeroizing<String>, StoreError> {
        secret::load_or_create(&self.file(name))
    }

    /// Replaces the secret of [`secret`](Self::secret) by a new one.
    pub fn renew_secret(&self, name: &str) -> Result<Zeroizing<String>, StoreError> {
        secret::renew(&self.file(name))
    }
}

const ROOT_DIR: &str = "/var/lib/hawser";

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn choose(explicit: Option<&str>, is_root: bool, set: &[(&str, &str)]) -> Option<String> {
        let variable = |name: &str| {
            set.iter()
                .find(|(n, _)| *n == name)
                .map(|(_, value)| value.into())
        };
        let dir = StateDir::choose(explicit.map(PathBuf::from), is_root, variable).ok()?;
        Some(dir.path().display().to_string())
    }

    #[test]
    fn the_directory_is_the_given_one_or_that_of_the_system_or_of_the_user() {
        let home = [("HOME", "/home/u")];
        let xdg = [("HOME", "/home/u"), ("XDG_STATE_HOME", "/x")];
        let relative = [("HOME", "/home/u"), ("XDG_STATE_HOME", "x")];
        assert_eq!(choose(Some("here"), true, &xdg).unwrap(), "here");
        assert_eq!(choose(None, true, &xdg).unwrap(), "/var/lib/hawser");
        assert_eq!(choose(None, false, &xdg).unwrap(), "/x/hawser");
        assert_eq!(
            choose(None, false, &home).unwrap(),
            "/home/u/.local/state/hawser"
        );
        assert_eq!(
            choose(None, false, &relative).unwrap(),
            "/home/u/.local/state/hawser"
        );
        assert_eq!(choose(None, false, &[]), None);
    }

    #[test]
    fn it_is_made_private_and_a_public_one_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("a/b");
        let dir = StateDir::resolve(Some(path.clone())).unwrap();
        dir.prepare().unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o700
        );
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        let error = dir.prepare().unwrap_err().to_string();
        assert!(error.contains("chmod 700"), "{error}");
    }
}
