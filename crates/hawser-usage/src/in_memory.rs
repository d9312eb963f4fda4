//! A copy in memory of a database that cannot be written, as on a full disk: what was used of the
//! month stays known, and what is used from now on counts.

use std::collections::BTreeMap;
use std::path::Path;

use hawser_sched::rules::Usage;
use hawser_types::ByteCount;
use rusqlite::backup::Backup;
use rusqlite::{Connection, OpenFlags};

use crate::{Unwritten, UsageDatabase, UsageError, in_real_folder, upgrade, write_usage};

impl Unwritten {
    pub(crate) fn add<'a>(&mut self, charges: impl Iterator<Item = (&'a str, &'a Usage)>) {
        for (link, usage) in charges {
            let month = (link.to_owned(), usage.since);
            let sum = self.charges.entry(month).or_insert(Usage {
                up: ByteCount::ZERO,
                down: ByteCount::ZERO,
                ..*usage
            });
            sum.up += usage.up;
            sum.down += usage.down;
        }
    }
}

impl UsageDatabase {
    /// Copies the file, without a write to its disk. There may be no file.
    pub(crate) fn open_in_memory(path: &Path) -> Result<Self, UsageError> {
        let fail = |source| UsageError::Database {
            path: path.to_path_buf(),
            source,
        };
        let mut database = copy(path).map_err(fail)?;
        upgrade(&mut database, path)?;
        let unwritten = Unwritten {
            path: path.to_path_buf(),
            charges: BTreeMap::new(),
        };
        Ok(Self {
            database,
            unwritten: Some(unwritten),
        })
    }

    /// Replaces a copy in memory by the file, if the file takes the charges that only the copy has.
    /// Other knowledge in the copy is dropped, and is learned again.
    pub(crate) fn try_file(&mut self) {
        let Some(unwritten) = &self.unwritten else {
            return;
        };
        let charges = unwritten.charges.iter();
        let charges = charges.map(|((link, _), usage)| (link.as_str(), usage));
        if let Ok(mut file) = Self::open_sound(&unwritten.path)
            && file.change(|change| write_usage(change, charges)).is_ok()
        {
            *self = file;
        }
    }
}

fn copy(path: &Path) -> rusqlite::Result<Connection> {
    let mut copy = Connection::open_in_memory()?;
    if path.symlink_metadata().is_err() {
        return Ok(copy);
    }
    let source = source(&in_real_folder(path))?;
    Backup::new(&source, &mut copy)?.run_to_completion(i32::MAX, Default::default(), None)?;
    Ok(copy)
}

/// Opens the file so that reading makes no file beside it.
fn source(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_NOFOLLOW | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let log = path.with_extension("db-wal").metadata();
    if log.is_ok_and(|log| log.len() > 0) {
        // The newest charges are in the log. Its index is kept in memory for one that has the file
        // alone.
        let flags = flags | OpenFlags::SQLITE_OPEN_READ_WRITE;
        let source = Connection::open_with_flags(path, flags)?;
        source.execute_batch("PRAGMA locking_mode = EXCLUSIVE")?;
        return Ok(source);
    }
    let encoded = |byte: &u8| match byte {
        b'/' | b'.' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => char::from(*byte).to_string(),
        byte => format!("%{byte:02x}"),
    };
    let name: String = path
        .as_os_str()
        .as_encoded_bytes()
        .iter()
        .map(encoded)
        .collect();
    let flags = flags | OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    Connection::open_with_flags(format!("file:{name}?immutable=1"), flags)
}
