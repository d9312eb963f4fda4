//! The users of a directory and their passwords, from a file that may change at any time.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hawser_sip::digest::{Algorithm, Secret};
use hawser_sip::registrar::Users;
use hawser_sip::uri::SipUri;
use hawser_types::Host;
use parking_lot::RwLock;
use thiserror::Error;
use zeroize::Zeroizing;

/// The users in a file with lines `NAME:PASSWORD`. Clones share what was read last.
#[derive(Clone)]
pub struct UserFile {
    path: PathBuf,
    realm: Arc<str>,
    domains: Arc<[Host]>,
    read: Arc<RwLock<Read>>,
}

struct Read {
    users: BTreeMap<String, Zeroizing<String>>,
    /// Stamp of the file that was read last, even if it has a mistake; `None` if it was unreadable.
    stamp: Option<Stamp>,
}

/// Identifies a version of a file: device, inode, size, permissions and both times.
type Stamp = (u64, u64, u64, u32, [i64; 4]);

/// Why a file with users can't be used. The error shows nothing of the file's content.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum UserFileError {
    /// The system refuses access.
    #[error("can't read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The file's group can write it, or users outside of its group have access to it.
    #[error(
        "{} has mode {mode:o}, but only its owner may write it, and only its owner and group may \
         read it; run: chmod 600 {}",
        path.display(), path.display()
    )]
    TooOpen {
        /// The file.
        path: PathBuf,
        /// The file's permission bits.
        mode: u32,
    },
    /// A line is malformed.
    #[error("{} line {line}: expected NAME:PASSWORD, {problem}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The number of the line.
        line: usize,
        /// What is wrong with the line.
        problem: &'static str,
    },
}

impl UserFile {
    /// Reads the file. The first domain is the realm.
    ///
    /// # Errors
    /// See [`UserFileError`].
    pub fn open(path: &Path, domains: &[Host]) -> Result<Self, UserFileError> {
        let read = Read::of(path)?;
        let realm = domains.first().map(Host::to_string).unwrap_or_default();
        Ok(Self {
            path: path.to_path_buf(),
            realm: realm.into(),
            domains: domains.into(),
            read: Arc::new(RwLock::new(read)),
        })
    }

    /// Reads the file again if it has changed since; returns whether it has.
    ///
    /// # Errors
    /// See [`UserFileError`], once for each version of the file. The users then stay unchanged.
    pub fn reload_if_changed(&self) -> Result<bool, UserFileError> {
        let metadata = fs::metadata(&self.path).map_err(|error| io_error(&self.path, error));
        let now = metadata.as_ref().ok().map(stamp);
        if now == self.with(|read| read.stamp) {
            return Ok(false);
        }
        let read = metadata.and_then(|_| Read::of(&self.path));
        let mut kept = self.read.write();
        kept.stamp = now;
        *kept = read?;
        Ok(true)
    }

    /// Returns the number of users.
    #[must_use]
    pub fn count(&self) -> usize {
        self.with(|read| read.users.len())
    }

    /// Returns whether an address of record belongs to one of these users.
    #[must_use]
    pub fn is_known(&self, address_of_record: &str) -> bool {
        let uri = address_of_record.parse().ok();
        let uri: Option<hawser_sip::uri::Uri> = uri;
        let user = uri.and_then(|uri| uri.as_sip().and_then(SipUri::user));
        user.is_some_and(|user| self.has(&user))
    }

    /// Returns whether there is a user with this name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.with(|read| read.users.contains_key(name))
    }

    fn with<R>(&self, look: impl FnOnce(&Read) -> R) -> R {
        look(&self.read.read())
    }
}

impl Users for UserFile {
    fn secret(&self, username: &str, algorithm: Algorithm) -> Option<Secret> {
        self.with(|read| {
            let password = read.users.get(username)?;
            Some(Secret::new(algorithm, username, &self.realm, password))
        })
    }

    /// Each user may register only his own address, in all domains.
    fn may_register(&self, username: &str, address_of_record: &str) -> bool {
        self.domains.iter().any(|domain| {
            let own = SipUri::new(Some(username), domain.clone(), None).ok();
            let own = own.and_then(|uri| uri.address_of_record());
            own.as_deref() == Some(address_of_record)
        })
    }

    /// Users may see where other users are, since they can call each other anyway.
    fn may_watch(&self, _: &str, address_of_record: &str) -> bool {
        self.is_known(address_of_record)
    }
}

impl Read {
    fn of(path: &Path) -> Result<Self, UserFileError> {
        let io = |error| io_error(path, error);
        let file = File::open(path).map_err(io)?;
        let metadata = file.metadata().map_err(io)?;
        let mode = metadata.mode() & 0o777;
        if !metadata.is_file() {
            return Err(io(io::Error::other("it is not a regular file")));
        }
        if mode & OTHERS != 0 {
            let path = path.to_path_buf();
            return Err(UserFileError::TooOpen { path, mode });
        }
        let mut text = Zeroizing::new(String::new());
        file.take(MAX_FILE + 1)
            .read_to_string(&mut text)
            .map_err(io)?;
        if text.len() as u64 > MAX_FILE {
            return Err(io(io::Error::other("it is larger than 8 MiB")));
        }
        let users = parse(path, &text)?;
        let stamp = Some(stamp(&metadata));
        Ok(Self { users, stamp })
    }
}

fn parse(path: &Path, text: &str) -> Result<BTreeMap<String, Zeroizing<String>>, UserFileError> {
    let mut users = BTreeMap::new();
    for (place, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |problem| UserFileError::Line {
            path: path.to_path_buf(),
            line: place + 1,
            problem,
        };
        let (name, password) = line
            .split_once(':')
            .ok_or_else(|| wrong("there is no colon"))?;
        let example = Host::Ip(std::net::Ipv4Addr::LOCALHOST.into());
        if SipUri::new(Some(name), example, None).is_err() {
            return Err(wrong("the name can't be the user in a SIP address"));
        }
        // Addresses of record have names without escapes, so such a name would never match.
        if name.contains('%') {
            return Err(wrong("the name has an escape (%)"));
        }
        if password.is_empty() {
            return Err(wrong("the password is empty"));
        }
        let password = Zeroizing::new(password.to_owned());
        if users.insert(name.to_owned(), password).is_some() {
            return Err(wrong("an earlier line has the same name"));
        }
    }
    Ok(users)
}

fn stamp(metadata: &fs::Metadata) -> Stamp {
    let times = [
        metadata.mtime(),
        metadata.mtime_nsec(),
        metadata.ctime(),
        metadata.ctime_nsec(),
    ];
    let (device, inode) = (metadata.dev(), metadata.ino());
    (device, inode, metadata.size(), metadata.mode(), times)
}

fn io_error(path: &Path, source: io::Error) -> UserFileError {
    let path = path.to_path_buf();
    UserFileError::Io { path, source }
}

/// Permission bits that must be clear: those of others, and writing for the group.
const OTHERS: u32 = 0o027;
const MAX_FILE: u64 = 8 << 20;

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn domains() -> Vec<Host> {
        vec![
            "example.org".parse().unwrap(),
            "example.net".parse().unwrap(),
        ]
    }

    fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users");
        put(&path, text);
        (folder, path)
    }

    fn put(path: &Path, text: &str) {
        write(path, text).unwrap();
        set_permissions(path, Permissions::from_mode(0o600)).unwrap();
    }

    #[test]
    fn everybody_may_register_for_himself_and_is_gone_when_the_file_says_so() {
        let (_folder, path) = file("# people\nalice:se:cret\n\nbob:b\n");
        let users = UserFile::open(&path, &domains()).unwrap();
        assert_eq!(users.count(), 2);
        assert!(users.secret("alice", Algorithm::Sha256).is_some());
        assert!(users.secret("eve", Algorithm::Md5).is_none());
        assert!(users.may_register("alice", "sip:alice@example.net"));
        assert!(!users.may_register("alice", "sip:bob@example.org"));
        assert!(!users.may_register("alice", "sip:alice@example.com"));
        assert!(users.is_known("sip:bob@example.org"));
        assert!(!users.reload_if_changed().unwrap());
        put(&path, "alice:se:cret\n");
        assert!(users.reload_if_changed().unwrap());
        assert!(!users.is_known("sip:bob@example.org"));
    }

    #[test]
    fn a_mistake_changes_nothing_and_is_told_once() {
        let (_folder, path) = file("alice:a\n");
        let users = UserFile::open(&path, &domains()).unwrap();
        let told = || [(); 3].map(|()| users.reload_if_changed().map_err(|e| e.to_string()));
        put(&path, "alice");
        let [first, second, third] = told();
        assert!(first.unwrap_err().contains("there is no colon"));
        assert_eq!((second, third), (Ok(false), Ok(false)));
        set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let [first, second, _] = told();
        assert!(first.unwrap_err().contains("mode 644"));
        assert_eq!(second, Ok(false));
        std::fs::remove_file(&path).unwrap();
        let [first, second, _] = told();
        assert!(first.unwrap_err().contains("can't read"));
        assert_eq!(second, Ok(false));
        assert!(users.is_known("sip:alice@example.org"));
        put(&path, "bob:b\n");
        assert_eq!(told(), [Ok(true), Ok(false), Ok(false)]);
        assert!(!users.is_known("sip:alice@example.org"));
    }

    #[test]
    fn a_file_with_a_mistake_or_that_others_can_read_is_refused_without_showing_it() {
        for (text, line) in [
            ("alice", "line 1: expected NAME:PASSWORD, there is no colon"),
            (
                "a:secret\nb:",
                "line 2: expected NAME:PASSWORD, the password is empty",
            ),
            (":secret", "line 1"),
            ("a b:secret", "line 1"),
            (
                "a%62:secret",
                "line 1: expected NAME:PASSWORD, the name has an escape (%)",
            ),
            (
                "a:secret\na:x",
                "line 2: expected NAME:PASSWORD, an earlier line has the same name",
            ),
        ] {
            let (_folder, path) = file(text);
            let problem = UserFile::open(&path, &domains()).err().unwrap().to_string();
            assert!(problem.contains(line), "{problem}");
            assert!(!problem.contains("secret"), "{problem}");
        }
        let (_folder, path) = file("alice:secret");
        for (mode, is_good) in [
            (0o640, true),
            (0o644, false),
            (0o660, false),
            (0o601, false),
        ] {
            set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let problem = UserFile::open(&path, &domains()).err();
            assert_eq!(problem.is_none(), is_good, "{mode:o}");
            let problem = problem.map(|it| it.to_string()).unwrap_or_default();
            assert!(
                is_good || problem.contains(&format!("mode {mode:o}")),
                "{problem}"
            );
        }
    }
}
