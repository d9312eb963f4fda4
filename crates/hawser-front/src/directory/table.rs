//! Keeps bindings over a restart, in SQLite, one row for each.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hawser_sip::registrar::KeptBinding;
use rusqlite::{Connection, ErrorCode, OpenFlags, Row, params};
use thiserror::Error;

/// The file with the bindings.
#[derive(Debug)]
pub struct BindingTable {
    database: Connection,
}

/// Why bindings can't be saved or loaded.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TableError {
    /// SQLite reports an error.
    #[error("can't use the bindings in {}: {source}", path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// The error.
        source: rusqlite::Error,
    },
    /// A later version of Hawser has written the bindings.
    #[error(
        "the bindings in {} were written by a later version: their format is {version}, known is \
         {KNOWN}; update hawser",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The format of the file.
        version: i64,
    },
}

/// An address of record with its present bindings, which may be empty.
pub(super) type Change = (String, Vec<KeptBinding>);

impl BindingTable {
    /// Opens or creates the file. A damaged file is set aside. If the disk refuses the file,
    /// bindings are lost at exit: hosts register again within the hour.
    ///
    /// # Errors
    /// If another process is writing it, or a later version has written it.
    pub fn open(path: &Path) -> Result<Self, TableError> {
        let opened = match open_file(path) {
            Err(error)
                if matches!(
                    error.sqlite_error_code(),
                    Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
                ) =>
            {
                let aside = path.with_extension("db.damaged");
                tracing::warn!(file = %aside.display(),
                    "set aside the directory's damaged file of bindings");
                for suffix in ["", "-wal", "-shm"] {
                    let beside = |path: &Path| PathBuf::from(format!("{}{suffix}", path.display()));
                    let _ = std::fs::rename(beside(path), beside(&aside));
                }
                open_file(path)
            }
            other => other,
        };
        let opened = opened.or_else(|error| {
            let code = error.sqlite_error_code();
            if let Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) = code {
                return Err(error);
            }
            let file = path.display();
            tracing::warn!(%file, %error,
                "can't use the directory's file of bindings: they are lost at exit");
            prepare(Connection::open_in_memory()?)
        });
        let (database, version) = opened.map_err(|source| TableError::Database {
            path: path.to_path_buf(),
            source,
        })?;
        if version != KNOWN {
            let path = path.to_path_buf();
            return Err(TableError::Newer { path, version });
        }
        Ok(Self { database })
    }

    /// Returns all bindings by their addresses of record.
    ///
    /// # Errors
    /// If they can't be read.
    pub fn load(&self) -> Result<BTreeMap<String, Vec<KeptBinding>>, TableError> {
        let load = || -> rusqlite::Result<_> {
            let mut query = self.database.prepare(SELECT)?;
            let mut all: BTreeMap<String, Vec<KeptBinding>> = BTreeMap::new();
            let rows = query.query_map([], |row| Ok((row.get::<_, String>(0)?, read(row)?)))?;
            for row in rows {
                let (address, binding) = row?;
                all.entry(address).or_default().push(binding);
            }
            Ok(all)
        };
        load().map_err(|source| self.failed(source))
    }

    /// Replaces the bindings of these addresses, all or none.
    ///
    /// Bindings survive if the process is killed. After a power cut the last ones may be missing.
    ///
    /// # Errors
    /// If they can't be written.
    pub(super) fn keep(&mut self, changes: &[Change]) -> Result<(), TableError> {
        let write = |database: &mut Connection| -> rusqlite::Result<()> {
            let change = database.transaction()?;
            for (address, bindings) in changes {
                change.prepare_cached(DELETE)?.execute([address])?;
                let mut insert = change.prepare_cached(INSERT)?;
                for (place, binding) in bindings.iter().enumerate() {
                    let outbound = binding.outbound.as_ref();
                    insert.execute(params![
                        address,
                        place as i64,
                        binding.contact,
                        binding.q,
                        binding.expires_unix_ms.cast_signed(),
                        binding.updated_unix_ms.cast_signed(),
                        binding.call_id,
                        binding.cseq,
                        binding.path,
                        outbound.map(|(instance, _)| instance),
                        outbound.map(|(_, number)| number),
                        binding.source,
                    ])?;
                }
            }
            change.commit()
        };
        write(&mut self.database).map_err(|source| self.failed(source))
    }

    /// Removes the bindings of all addresses that `kept` rejects, and returns the freed room in the
    /// file to the disk.
    ///
    /// # Errors
    /// If they can't be removed.
    pub(super) fn retain(&mut self, kept: impl Fn(&str) -> bool) -> Result<(), TableError> {
        let sweep = |database: &mut Connection| -> rusqlite::Result<()> {
            let change = database.transaction()?;
            let mut query = change.prepare("SELECT DISTINCT address FROM binding")?;
            let all = query.query_map([], |row| row.get::<_, String>(0))?;
            let all = all.collect::<rusqlite::Result<Vec<_>>>()?;
            drop(query);
            for address in all.iter().filter(|address| !kept(address)) {
                change.prepare_cached(DELETE)?.execute([address])?;
            }
            change.commit()?;
            let count = |name| database.query_row(name, [], |row| row.get::<_, i64>(0));
            let (free, all) = (count("PRAGMA freelist_count")?, count("PRAGMA page_count")?);
            if free > all / 2 {
                database.execute_batch("VACUUM")?;
            }
            Ok(())
        };
        sweep(&mut self.database).map_err(|source| self.failed(source))
    }

    fn failed(&self, source: rusqlite::Error) -> TableError {
        let path = self.database.path().unwrap_or_default().into();
        TableError::Database { path, source }
    }
}

fn open_file(path: &Path) -> rusqlite::Result<(Connection, i64)> {
    let flags = OpenFlags::default() | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    prepare(Connection::open_with_flags(path, flags)?)
}

/// Returns the database with its format.
fn prepare(mut database: Connection) -> rusqlite::Result<(Connection, i64)> {
    let verdict: String = database.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if verdict != "ok" {
        let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
        return Err(rusqlite::Error::SqliteFailure(code, None));
    }
    database.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
    database.execute_batch("PRAGMA synchronous = NORMAL")?;
    let version: i64 = database.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if version == 0 {
        let change = database.transaction()?;
        change.execute_batch(SCHEMA)?;
        change.commit()?;
    }
    // The column is newer than the first version, but has the same version number: the first
    // version reads and writes a table with this column as well.
    let has_source = database.prepare("SELECT source FROM binding").is_ok();
    let version = database.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if version == KNOWN && !has_source {
        database.execute_batch("ALTER TABLE binding ADD COLUMN source TEXT")?;
    }
    Ok((database, version))
}

fn read(row: &Row<'_>) -> rusqlite::Result<KeptBinding> {
    let instance: Option<String> = row.get(8)?;
    let number: Option<u32> = row.get(9)?;
    Ok(KeptBinding {
        contact: row.get(1)?,
        q: row.get(2)?,
        expires_unix_ms: row.get::<_, i64>(3)?.cast_unsigned(),
        updated_unix_ms: row.get::<_, i64>(4)?.cast_unsigned(),
        call_id: row.get(5)?,
        cseq: row.get(6)?,
        path: row.get(7)?,
        outbound: instance.zip(number),
        source: row.get(10)?,
    })
}

const SELECT: &str = "SELECT address, contact, q, expires, updated, call_id, cseq, path, instance, \
     reg_id, source FROM binding ORDER BY address, place";
const DELETE: &str = "DELETE FROM binding WHERE address = ?1";
const INSERT: &str = "INSERT INTO binding (address, place, contact, q, expires, updated, call_id, \
     cseq, path, instance, reg_id, source) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, \
     ?11, ?12)";
const KNOWN: i64 = 1;
/// `IF NOT EXISTS`: earlier versions created the table before they set the version number, and
/// could be killed in between.
const SCHEMA: &str = "CREATE TABLE IF NOT EXISTS binding (
        address TEXT NOT NULL,
        place INTEGER NOT NULL,
        contact TEXT NOT NULL,
        q INTEGER NOT NULL,
        expires INTEGER NOT NULL,
        updated INTEGER NOT NULL,
        call_id TEXT NOT NULL,
        cseq INTEGER NOT NULL,
        path TEXT NOT NULL,
        instance TEXT,
        reg_id INTEGER,
        source TEXT,
        PRIMARY KEY (address, place)
    ) STRICT, WITHOUT ROWID;
    PRAGMA user_version = 1;";

#[cfg(test)]
mod tests {
    use super::*;

    fn binding(contact: &str, outbound: Option<(String, u32)>) -> KeptBinding {
        KeptBinding {
            contact: contact.to_owned(),
            q: 700,
            expires_unix_ms: 1_800_000_000_000,
            updated_unix_ms: 1_799_999_000_000,
            call_id: "1@host".to_owned(),
            cseq: u32::MAX,
            path: "<sip:p.example;lr>".to_owned(),
            outbound,
            source: Some("192.0.2.7".to_owned()),
        }
    }

    #[test]
    fn what_was_kept_is_there_when_the_file_is_opened_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("directory.db");
        let mut table = BindingTable::open(&path).unwrap();
        let two = vec![
            binding("<sip:a@192.0.2.1>", None),
            binding("<sip:a@192.0.2.2>", Some(("<urn:uuid:1>".to_owned(), 2))),
        ];
        let one = vec![binding("<sip:b@192.0.2.3>", None)];
        let changes = [
            ("sip:a@b".to_owned(), two.clone()),
            ("sip:b@b".to_owned(), one.clone()),
        ];
        table.keep(&changes).unwrap();
        // As after a kill: nothing is closed in order.
        std::mem::forget(table);
        let mut table = BindingTable::open(&path).unwrap();
        let loaded = table.load().unwrap();
        assert_eq!(loaded, BTreeMap::from(changes));
        table.keep(&[("sip:a@b".to_owned(), Vec::new())]).unwrap();
        let loaded = BindingTable::open(&path).unwrap().load().unwrap();
        assert_eq!(loaded, [("sip:b@b".to_owned(), one)].into());
    }

    #[test]
    fn a_file_whose_making_was_cut_short_is_made_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("directory.db");
        let (table, _) = SCHEMA.split_once("PRAGMA").unwrap();
        Connection::open(&path)
            .unwrap()
            .execute_batch(table)
            .unwrap();
        let mut table = BindingTable::open(&path).unwrap();
        let one = vec![binding("<sip:a@192.0.2.1>", None)];
        let changes = [("sip:a@b".to_owned(), one)];
        table.keep(&changes).unwrap();
        drop(table);
        let loaded = BindingTable::open(&path).unwrap().load().unwrap();
        assert_eq!(loaded, BTreeMap::from(changes));
    }

    #[test]
    fn a_file_of_the_first_version_is_read_and_takes_where_requests_came_from() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("directory.db");
        let first = SCHEMA.replace("        source TEXT,\n", "");
        assert_ne!(first, SCHEMA);
        let before = Connection::open(&path).unwrap();
        before.execute_batch(&first).unwrap();
        let row = "INSERT INTO binding VALUES ('sip:a@b', 0, '<sip:a@192.0.2.1>', 700, 1, 2, '1', \
                   3, '', NULL, NULL)";
        before.execute(row, []).unwrap();
        drop(before);
        let mut table = BindingTable::open(&path).unwrap();
        assert_eq!(table.load().unwrap()["sip:a@b"][0].source, None);
        let one = vec![binding("<sip:a@192.0.2.1>", None)];
        let changes = [("sip:a@b".to_owned(), one)];
        table.keep(&changes).unwrap();
        let loaded = BindingTable::open(&path).unwrap().load().unwrap();
        assert_eq!(loaded, BTreeMap::from(changes));
    }

    #[test]
    fn bindings_are_kept_for_the_run_where_the_file_can_not_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("directory.db");
        // As on a full disk: the index of the log can't be made.
        std::fs::create_dir(folder.path().join("directory.db-shm")).unwrap();
        let mut table = BindingTable::open(&path).unwrap();
        let changes = [(
            "sip:a@b".to_owned(),
            vec![binding("<sip:a@192.0.2.1>", None)],
        )];
        table.keep(&changes).unwrap();
        assert_eq!(table.load().unwrap(), BTreeMap::from(changes));
    }

    #[test]
    fn a_damaged_file_is_set_aside_and_a_later_one_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("directory.db");
        std::fs::write(&path, "nonsense".repeat(1000)).unwrap();
        assert!(
            BindingTable::open(&path)
                .unwrap()
                .load()
                .unwrap()
                .is_empty()
        );
        assert!(folder.path().join("directory.db.damaged").exists());
        let table = BindingTable::open(&path).unwrap();
        table
            .database
            .execute_batch("PRAGMA user_version = 9")
            .unwrap();
        drop(table);
        assert!(BindingTable::open(&path).is_err());
    }
}
