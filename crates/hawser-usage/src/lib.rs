//! What went over each link, by month, what links can carry, and what connections of applications
//! have needed, in a database that survives power cuts.
//!
//! One file, `ledger.db`, for all programs that use the same state directory: they add to it, so
//! none undoes what another has counted. A charge is in it for good once [`UsageDatabase::charge`] has
//! returned, or not at all.
//!
//! # Schema
//!
//! Version 4 (`PRAGMA user_version`). Older files are brought up to it when they are opened.
//!
//! Since version 1, the table `usage` with a row for each link and month.
//!
//! | column | |
//! |---|---|
//! | `link` | the interface's name |
//! | `since` | the first day of the month, as year × 10,000 + month × 100 + day |
//! | `up`, `down` | bytes sent and received |
//!
//! Since version 2, the table `demand` with a row for each application and class of port.
//!
//! | column | |
//! |---|---|
//! | `application` | the program's name; empty for those that are not known |
//! | `ports` | the class of the port, as [`hawser_path::PortClass`] names it |
//! | `up`, `down` | what a connection is expected to send and receive, in bytes |
//! | `connections` | how many have taught that |
//! | `updated` | when it last changed, in seconds since 1970 |
//!
//! Since version 3, the table `probe` with a row for each link and day on which it was measured.
//!
//! | column | |
//! |---|---|
//! | `link` | the interface's name |
//! | `day` | as year × 10,000 + month × 100 + day |
//! | `bytes` | what measuring was allowed to move |
//!
//! Since version 4, the table `rate` with a row for each link and network that it was attached to.
//! What was never seen is NULL.
//!
//! | column | |
//! |---|---|
//! | `link` | the interface's name |
//! | `network` | the address of its router, or else the network of its own address |
//! | `up`, `down` | what it can send and receive, in bytes per second |
//! | `up_confidence`, `down_confidence` | how much is to be thought of these, from 0 to 1 |
//! | `up_seen`, `down_seen` | when they were seen, in seconds since 1970 |
//! | `latency` | its round-trip time while it is empty, in microseconds |
//! | `updated` | when the row last changed, in seconds since 1970 |
//!
//! ```sql
//! SELECT application, ports, down, datetime(updated, 'unixepoch') FROM demand ORDER BY down DESC;
//! ```
#![forbid(unsafe_code)]

mod demand;
mod probe;
mod rate;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hawser_sched::rules::{Date, Usage};
use hawser_types::ByteCount;
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior, params};

pub use demand::MAX_DEMANDS;
pub use rate::MAX_RATES;

/// The ledger of one state directory.
#[derive(Debug)]
pub struct UsageDatabase {
    database: Connection,
}

/// Why a ledger can't be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UsageError {
    /// The database refuses.
    #[error("the ledger {path}: {source}")]
    Database {
        /// Its file.
        path: PathBuf,
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// A later version of the program has made it.
    #[error("the ledger {path} has format {version}; known is {KNOWN}")]
    Newer {
        /// Its file.
        path: PathBuf,
        /// Its format.
        version: i64,
    },
    /// It is damaged, and can't be moved out of the way.
    #[error("the damaged ledger {path} can't be set aside: {source}")]
    SetAside {
        /// Its file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

impl UsageDatabase {
    /// Opens the ledger at `path`, or begins one. A damaged one is set aside under the name that
    /// comes back, and a new one begun. A link is refused: in a service's directory root must not be led
    /// elsewhere.
    pub fn open(path: &Path) -> Result<(Self, Option<PathBuf>), UsageError> {
        match Self::open_sound(path) {
            Ok(ledger) => Ok((ledger, None)),
            Err(UsageError::Database { source, .. }) if is_damage(&source) => {
                let aside = set_aside(path)?;
                Ok((Self::open_sound(path)?, Some(aside)))
            }
            Err(error) => Err(error),
        }
    }

    fn open_sound(path: &Path) -> Result<Self, UsageError> {
        let fail = |source| UsageError::Database {
            path: path.to_path_buf(),
            source,
        };
        let flags = OpenFlags::default() | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let mut database =
            Connection::open_with_flags(in_real_folder(path), flags).map_err(fail)?;
        prepare(&database).map_err(fail)?;
        let version = migrate(&mut database).map_err(fail)?;
        if version > KNOWN {
            let path = path.to_path_buf();
            return Err(UsageError::Newer { path, version });
        }
        Ok(Self { database })
    }

    /// What went over each link in the latest month that something went over it in.
    pub fn usage(&self) -> Result<BTreeMap<String, Usage>, UsageError> {
        self.read().map_err(|source| self.failed(source))
    }

    /// Adds bytes to months of links, all of them or none.
    pub fn charge(&mut self, charges: &BTreeMap<String, Usage>) -> Result<(), UsageError> {
        let written = self.change(|change| write_usage(change, charges));
        written.map_err(|source| self.failed(source))
    }

    fn read(&self) -> rusqlite::Result<BTreeMap<String, Usage>> {
        let mut query = self.database.prepare_cached(
            "SELECT link, since, up, down FROM usage AS latest \
             WHERE since = (SELECT max(since) FROM usage WHERE link = latest.link)",
        )?;
        let rows = query.query_map([], |row| {
            let since = read_day(row.get(1)?);
            let (up, down) = (bytes(row.get(2)?), bytes(row.get(3)?));
            let usage = since.map(|since| Usage { since, up, down });
            Ok((row.get::<_, String>(0)?, usage))
        })?;
        let mut all = BTreeMap::new();
        for row in rows {
            if let (link, Some(usage)) = row? {
                all.insert(link, usage);
            }
        }
        Ok(all)
    }

    /// Changes the database by all that `write` does, or not at all.
    fn change(
        &mut self,
        write: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<()>,
    ) -> rusqlite::Result<()> {
        let immediate = TransactionBehavior::Immediate;
        let change = self.database.transaction_with_behavior(immediate)?;
        write(&change)?;
        change.commit()
    }

    fn failed(&self, source: rusqlite::Error) -> UsageError {
        let path = self.database.path().unwrap_or_default().into();
        UsageError::Database { path, source }
    }
}

/// The same file by a path of which nothing but the file may be a link, as SQLite wants it that is to
/// follow none.
fn in_real_folder(path: &Path) -> PathBuf {
    match (path.parent().map(Path::canonicalize), path.file_name()) {
        (Some(Ok(folder)), Some(name)) => folder.join(name),
        _ => path.to_path_buf(),
    }
}

fn write_usage(
    change: &Transaction<'_>,
    charges: &BTreeMap<String, Usage>,
) -> rusqlite::Result<()> {
    let mut add = change.prepare_cached(
        "INSERT INTO usage (link, since, up, down) VALUES (?1, ?2, ?3, ?4) \
         ON CONFLICT (link, since) DO UPDATE SET \
         up = min(up, ?5) + excluded.up, down = min(down, ?5) + excluded.down",
    )?;
    for (link, usage) in charges {
        let (up, down) = (count(usage.up), count(usage.down));
        add.execute(params![link, write_day(usage.since), up, down, MOST])?;
    }
    Ok(())
}

/// As the database holds it.
fn count(bytes: ByteCount) -> i64 {
    bytes.as_u64().min(MOST as u64) as i64
}

fn bytes(count: i64) -> ByteCount {
    ByteCount::new(count.try_into().unwrap_or(0))
}

/// Makes every commit reach the disk before it returns, and reads the whole file once.
fn prepare(database: &Connection) -> rusqlite::Result<()> {
    database.busy_timeout(PATIENCE)?;
    let verdict: String = database.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if verdict != "ok" {
        return Err(damage());
    }
    database.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
    database.execute_batch("PRAGMA synchronous = FULL")
}

/// Brings the schema up to what is known here; the version that it has then.
fn migrate(database: &mut Connection) -> rusqlite::Result<i64> {
    let change = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let version: i64 = change.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let done = usize::try_from(version).unwrap_or(usize::MAX);
    for step in STEPS.iter().skip(done) {
        change.execute_batch(step)?;
    }
    change.commit()?;
    Ok(version.max(KNOWN))
}

/// The file is no database, or not this one.
fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
    )
}

fn damage() -> rusqlite::Error {
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
    rusqlite::Error::SqliteFailure(code, None)
}

/// Moves the file out of the way, and what SQLite keeps beside it with it.
fn set_aside(path: &Path) -> Result<PathBuf, UsageError> {
    let beside = |path: &Path, suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    let free = (1..u32::MAX).map(|n| beside(path, &format!(".damaged-{n}")));
    let aside = free.into_iter().find(|path| !path.exists());
    let aside = aside.unwrap_or_else(|| beside(path, ".damaged"));
    std::fs::rename(path, &aside).map_err(|source| UsageError::SetAside {
        path: path.to_path_buf(),
        source,
    })?;
    for suffix in ["-wal", "-shm"] {
        // They may be missing; what is left of another file would not fit the new one.
        let _ = std::fs::rename(beside(path, suffix), beside(&aside, suffix));
    }
    Ok(aside)
}

fn write_day(date: Date) -> i64 {
    let (year, month, day) = date.parts();
    i64::from(year) * 10_000 + i64::from(month) * 100 + i64::from(day)
}

fn read_day(number: i64) -> Option<Date> {
    let year = i32::try_from(number / 10_000).ok()?;
    let part = |value: i64| u8::try_from(value % 100).ok();
    Date::new(year, part(number / 100)?, part(number)?)
}

/// One for each version, from the one before.
const STEPS: [&str; 4] = [
    "CREATE TABLE usage (
        link TEXT NOT NULL,
        since INTEGER NOT NULL,
        up INTEGER NOT NULL,
        down INTEGER NOT NULL,
        PRIMARY KEY (link, since)
    ) STRICT, WITHOUT ROWID;
    PRAGMA user_version = 1;",
    "CREATE TABLE demand (
        application TEXT NOT NULL,
        ports TEXT NOT NULL,
        up INTEGER NOT NULL,
        down INTEGER NOT NULL,
        connections INTEGER NOT NULL,
        updated INTEGER NOT NULL,
        PRIMARY KEY (application, ports)
    ) STRICT, WITHOUT ROWID;
    PRAGMA user_version = 2;",
    "CREATE TABLE probe (
        link TEXT NOT NULL,
        day INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        PRIMARY KEY (link, day)
    ) STRICT, WITHOUT ROWID;
    PRAGMA user_version = 3;",
    "CREATE TABLE rate (
        link TEXT NOT NULL,
        network TEXT NOT NULL,
        up INTEGER,
        up_confidence REAL,
        up_seen INTEGER,
        down INTEGER,
        down_confidence REAL,
        down_seen INTEGER,
        latency INTEGER,
        updated INTEGER NOT NULL,
        PRIMARY KEY (link, network)
    ) STRICT, WITHOUT ROWID;
    PRAGMA user_version = 4;",
];
const KNOWN: i64 = STEPS.len() as i64;
/// Far more than any link carries in a month; two of them still fit.
const MOST: i64 = i64::MAX / 4;
/// For another program that is writing.
const PATIENCE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests;
