//! The keys that peers proved at the first contact with this host.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use hawser_keys::host_port::HostPort;
use hawser_keys::identity::PublicKey;
use parking_lot::Mutex;

/// Addresses and their peers' keys: in a file `known-keys` with one `ADDRESS KEY` per line, or in
/// memory.
///
/// Lines are only appended, and the first one of an address counts: processes that write at the
/// same time lose nothing, and no later key replaces one. A line that a power cut or a full disk
/// left unfinished is ignored: the next append marks it.
#[derive(Debug)]
pub(crate) enum KnownKeys {
    File(PathBuf),
    Memory(Mutex<BTreeMap<HostPort, PublicKey>>),
}

/// The list of known keys can't be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KnownKeysError {
    /// The file can't be read or written.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The file was changed by another program than this library.
    #[error("{}, line {line}: expected an address and a key, got {got:?}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The start of the line.
        got: String,
    },
    /// The file is larger than this library lets it grow.
    #[error("{} has more than {MAX_FILE} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
}

impl KnownKeys {
    pub(crate) fn in_memory() -> Self {
        Self::Memory(Mutex::default())
    }

    pub(crate) fn in_directory(directory: &Path) -> Self {
        Self::File(directory.join("known-keys"))
    }

    /// Returns the key of the peer at `address`.
    pub(crate) fn find(&self, address: &HostPort) -> Result<Option<PublicKey>, KnownKeysError> {
        match self {
            Self::Memory(keys) => {
                let keys = keys.lock();
                Ok(keys.get(address).copied())
            }
            Self::File(path) => {
                let mut file = match File::open(path) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                    opened => opened.map_err(|error| failed(path, error))?,
                };
                find_line(path, &read(path, &mut file)?, address)
            }
        }
    }

    /// Remembers a key, unless one is known for that address already.
    pub(crate) fn remember(
        &self,
        address: &HostPort,
        key: PublicKey,
    ) -> Result<(), KnownKeysError> {
        match self {
            Self::Memory(keys) => {
                let mut keys = keys.lock();
                keys.entry(address.clone()).or_insert(key);
                Ok(())
            }
            Self::File(path) => append(path, &format!("{address} {key}\n")),
        }
    }
}

fn append(path: &Path, line: &str) -> Result<(), KnownKeysError> {
    let failed = |error| failed(path, error);
    let mut options = OpenOptions::new();
    options.create(true).read(true).append(true).mode(0o600);
    let mut file = options.open(path).map_err(failed)?;
    let size = file.seek(SeekFrom::End(0)).map_err(failed)?;
    let begins = if ends_with_line_end(&mut file, size).map_err(failed)? {
        ""
    } else {
        UNFINISHED
    };
    let line = format!("{begins}{line}");
    if size + line.len() as u64 > MAX_FILE {
        let path = path.to_path_buf();
        return Err(KnownKeysError::TooLarge { path });
    }
    // One write in append mode does not mix with another process's.
    file.write_all(line.as_bytes()).map_err(failed)?;
    file.sync_all().map_err(failed)
}

/// Tells whether a file of this size is empty or ends with a complete line.
fn ends_with_line_end(file: &mut File, size: u64) -> io::Result<bool> {
    let Some(last) = size.checked_sub(1) else {
        return Ok(true);
    };
    file.seek(SeekFrom::Start(last))?;
    let mut byte = [0];
    file.read_exact(&mut byte)?;
    Ok(byte == *b"\n")
}

fn read(path: &Path, file: &mut File) -> Result<String, KnownKeysError> {
    let mut bytes = Vec::new();
    let mut bounded = file.take(MAX_FILE + 1);
    bounded
        .read_to_end(&mut bytes)
        .map_err(|error| failed(path, error))?;
    if bytes.len() as u64 > MAX_FILE {
        let path = path.to_path_buf();
        return Err(KnownKeysError::TooLarge { path });
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn find_line(
    path: &Path,
    text: &str,
    address: &HostPort,
) -> Result<Option<PublicKey>, KnownKeysError> {
    let mut found = None;
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    for (number, line) in whole.lines().enumerate() {
        if line.ends_with(UNFINISHED.trim_end()) {
            continue;
        }
        let entry = parse_line(line).ok_or_else(|| KnownKeysError::Damaged {
            path: path.to_path_buf(),
            line: number + 1,
            got: line.chars().take(EXCERPT).collect(),
        })?;
        if entry.0 == *address {
            found = found.or(Some(entry.1));
        }
    }
    Ok(found)
}

fn parse_line(line: &str) -> Option<(HostPort, PublicKey)> {
    let (address, key) = line.split_once(' ')?;
    Some((address.parse().ok()?, key.parse().ok()?))
}

fn failed(path: &Path, error: io::Error) -> KnownKeysError {
    let path = path.to_path_buf();
    KnownKeysError::Io { path, error }
}

/// Marks the end of an incomplete line.
const UNFINISHED: &str = " unfinished\n";
const MAX_FILE: u64 = 4 * 1024 * 1024;
const EXCERPT: usize = 40;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(n: u8) -> PublicKey {
        PublicKey::from_bytes([n; 32])
    }

    fn address(text: &str) -> HostPort {
        text.parse().unwrap()
    }

    fn the_first_key_of_an_address_stays(known: &KnownKeys) {
        let (here, there) = (address("gw.example:7443"), address("[::1]:7443"));
        assert_eq!(known.find(&here).unwrap(), None);
        known.remember(&here, key(1)).unwrap();
        known.remember(&there, key(2)).unwrap();
        known.remember(&here, key(3)).unwrap();
        assert_eq!(known.find(&here).unwrap(), Some(key(1)));
        assert_eq!(known.find(&there).unwrap(), Some(key(2)));
        assert_eq!(known.find(&address("gw.example:7444")).unwrap(), None);
    }

    #[test]
    fn the_first_key_of_an_address_stays_in_memory() {
        the_first_key_of_an_address_stays(&KnownKeys::in_memory());
    }

    #[test]
    fn the_first_key_of_an_address_stays_on_disk_and_the_file_is_private() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        the_first_key_of_an_address_stays(&KnownKeys::in_directory(folder.path()));
        let file = folder.path().join("known-keys");
        let mode = std::fs::metadata(file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_damaged_file_is_named_with_its_line_and_means_no_key_is_unknown() {
        let folder = tempfile::tempdir().unwrap();
        let known = KnownKeys::in_directory(folder.path());
        known.remember(&address("a:1"), key(1)).unwrap();
        append(&folder.path().join("known-keys"), "b:2 nokey\n").unwrap();
        let error = known.find(&address("a:1")).unwrap_err().to_string();
        assert!(error.contains("known-keys, line 2"), "{error}");
    }

    #[test]
    fn a_line_that_was_cut_at_any_byte_harms_neither_the_others_nor_later_ones() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("known-keys");
        let known = KnownKeys::in_directory(folder.path());
        let (here, there) = (address("gw.example:7443"), address("[::1]:7443"));
        known.remember(&here, key(1)).unwrap();
        let kept = std::fs::read(&path).unwrap();
        known.remember(&there, key(2)).unwrap();
        let whole = std::fs::read(&path).unwrap();
        for end in kept.len()..whole.len() {
            std::fs::write(&path, &whole[..end]).unwrap();
            assert_eq!(known.find(&here).unwrap(), Some(key(1)), "cut at {end}");
            assert_eq!(known.find(&there).unwrap(), None, "cut at {end}");
            known.remember(&there, key(3)).unwrap();
            assert_eq!(known.find(&here).unwrap(), Some(key(1)), "cut at {end}");
            assert_eq!(known.find(&there).unwrap(), Some(key(3)), "cut at {end}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics(text in ".{0,200}") {
            let _ = find_line(Path::new("x"), &text, &address("a:1"));
        }
    }
}
