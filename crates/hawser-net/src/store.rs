//! What a host remembers between runs: its state directory and the files in it.
//!
//! The files are JSON for the eyes of an administrator. Each is replaced as a whole, under a lock,
//! after reading what another process may have put there meanwhile: `hawser invite` and
//! `hawser peers revoke` work beside a running daemon, which notices by `reload_if_changed`. A
//! file that makes no sense is reported by name and never overwritten.

mod client;
mod gateway;
mod json_file;
mod secret;

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use crate::identity::{FileError, Identity, IdentityError, PublicKey};
use crate::{files, sys};

pub use client::{ClientStore, EnrolledGateway};
pub use gateway::{Enrolment, EnrolmentError, GatewayStore, KEEP_EXPIRED, Peer, PendingInvite};

/// The directory of everything that one host keeps; a running daemon is found through it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StateDir {
    path: PathBuf,
}

impl StateDir {
    /// The directory to use: `explicit`; else `/var/lib/hawser` for root; else
    /// `$XDG_STATE_HOME/hawser`, by default `~/.local/state/hawser`. Makes nothing.
    pub fn resolve(explicit: Option<PathBuf>) -> Result<Self, StoreError> {
        Self::choose(explicit, sys::effective_user() == 0, |name| {
            env::var_os(name)
        })
    }

    fn choose(
        explicit: Option<PathBuf>,
        is_root: bool,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, StoreError> {
        // The XDG specification has relative paths ignored.
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

    /// Makes the directory with mode 0700 when it is missing; refuses one that everybody may write
    /// to.
    pub fn prepare(&self) -> Result<(), StoreError> {
        Ok(files::private_dir(&self.path)?)
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file `name` in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// This host's identity, made at the first call; see [`Identity::load_or_create`].
    pub fn identity(&self) -> Result<Identity, IdentityError> {
        Identity::load_or_create(&self.file("key"))
    }

    /// 256 random bits that whoever can read the directory knows, as text (base64url without padding, 43
    /// characters): the content of the file `name`, mode 0600, which is made at the first call.
    pub fn secret(&self, name: &str) -> Result<Zeroizing<String>, StoreError> {
        secret::load_or_create(&self.file(name))
    }

    /// Puts a new one in the place of that of [`secret`](Self::secret).
    pub fn renew_secret(&self, name: &str) -> Result<Zeroizing<String>, StoreError> {
        secret::renew(&self.file(name))
    }
}

/// Why the stored state cannot be read or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// No place for the state directory is known.
    #[error("neither XDG_STATE_HOME nor HOME is set to an absolute path; give --state DIR")]
    NoHome,
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The system gives no random numbers.
    #[error("the system gives no random numbers to make a secret of")]
    NoRandomness,
    /// A file was changed by something else than this program.
    #[error("{} is damaged: {reason}; correct it, or move it away to start anew", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What the parser said, with line and column.
        reason: String,
    },
    /// A file was written by a later release.
    #[error("{} has version {got}, only version {VERSION} is understood; update hawser",
        path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        got: u64,
    },
    /// Nobody of that key is stored.
    #[error("no peer has the key {key}")]
    UnknownPeer {
        /// The key asked for.
        key: PublicKey,
    },
    /// There is an invite with that key already.
    #[error("there is an invite with the key {key} already")]
    InviteExists {
        /// The enrolment key.
        key: PublicKey,
    },
    /// The bound on stored entries is reached.
    #[error("there are {limit} {what} already, the most that are kept")]
    Full {
        /// What there are too many of.
        what: &'static str,
        /// How many are kept.
        limit: usize,
    },
    /// A name that cannot be shown in a table.
    #[error(
        "a name has 1 to {} characters and no control characters, got {got:?}",
        gateway::MAX_NAME
    )]
    Name {
        /// The start of the name.
        got: String,
    },
}

const ROOT_DIR: &str = "/var/lib/hawser";
/// Of the files.
const VERSION: u64 = 1;

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
