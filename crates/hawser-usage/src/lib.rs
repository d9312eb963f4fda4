//! The usage database: traffic of each link by month, link rates, and demand of applications'
//! connections, in a database that survives power failures.
//!
//! One file, `ledger.db`, is shared by all programs with the same state directory. They add to it,
//! so none undoes another's count. A charge is durable once [`UsageDatabase::charge`] has returned,
//! or not made at all. [`UsageDatabase`] documents the schema.
//!
//! - Opening: [`UsageDatabase::open`] upgrades older files, sets a damaged one aside, and works on
//!   a copy in memory (`in_memory.rs`) where the disk takes nothing.
//! - Writing: `charge` (this file) for traffic by link and month, `demand.rs` for what connections
//!   of an application need, `rate.rs` for what links can carry, `probe.rs` for the day's budget of
//!   measurements.
//!
//! Who uses it: in `hawser-daemon`, `proxy/rules.rs` counts allowances, and
//! `proxy/direct.rs` gives rates and demands of earlier runs to the director.
//!
//! To add a table: its file beside `rate.rs`, its step in `STEPS` (this file), its columns in the
//! schema. Tests stand in each file; `end_to_end/ledger.rs` of `hawser-cli` gives a daemon unusable
//! files.
#![forbid(unsafe_code)]

mod demand;
mod in_memory;
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

/// The usage database of one state directory.
///
/// # Schema
///
/// Version 4 (`PRAGMA user_version`). Older files are upgraded when they are opened.
///
/// Since version 1, the table `usage` with a row for each link and month.
///
/// | column | |
/// |---|---|
/// | `link` | the interface's name |
/// | `since` | the first day of the month, as year × 10,000 + month × 100 + day |
/// | `up`, `down` | bytes sent and received |
///
/// Since version 2, the table `demand` with a row for each application and class of port.
///
/// | column | |
/// |---|---|
/// | `application` | the program's name; empty for unknown ones |
/// | `ports` | the class of the port, as [`hawser_sched::PortClass`] names it |
/// | `up`, `down` | what a connection is expected to send and receive, in bytes |
/// | `connections` | number of connections behind the estimate |
/// | `updated` | time of the last change, in seconds since 1970 |
///
/// Since version 3, the table `probe` with a row for each link and day on which it was measured.
///
/// | column | |
/// |---|---|
/// | `link` | the interface's name |
/// | `day` | as year × 10,000 + month × 100 + day |
/// | `bytes` | bytes that measurements were allowed to move |
///
/// Since version 4, the table `rate` with a row for each link and network that it was attached to.
/// Unknown values are NULL.
///
/// | column | |
/// |---|---|
/// | `link` | the interface's name |
/// | `network` | the address of its router, or else the network of its own address |
/// | `up`, `down` | what it can send and receive, in bytes per second |
/// | `up_confidence`, `down_confidence` | confidence in these, from 0 to 1 |
/// | `up_seen`, `down_seen` | times of observation, in seconds since 1970 |
/// | `latency` | its round-trip time while idle, in microseconds |
/// | `updated` | time of the row's last change, in seconds since 1970 |
///
/// ```sql
/// SELECT application, ports, down, datetime(updated, 'unixepoch') FROM demand ORDER BY down DESC;
/// ```
#[derive(Debug)]
pub struct UsageDatabase {
    database: Connection,
    /// Where it is a copy in memory.
    unwritten: Option<Unwritten>,
}

/// Charges to a copy in memory that are not in the file.
#[derive(Debug)]
struct Unwritten {
    path: PathBuf,
    charges: BTreeMap<(String, Date), Usage>,
}

/// Problem with a usage database that was opened.
#[derive(Debug)]
pub enum Trouble {
    /// It was damaged: it has this name now, and another one was begun.
    SetAside(PathBuf),
    /// It cannot be written, for this reason: it is a copy in memory until it can.
    InMemory(UsageError),
}

/// Reason why a usage database cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UsageError {
    /// SQLite reports an error.
    #[error("the usage database {path}: {source}")]
    Database {
        /// File of the database.
        path: PathBuf,
        /// Error of SQLite.
        source: rusqlite::Error,
    },
    /// The database was made by a later version of the program.
    #[error(
        "the usage database {path} was written by a later version: its format is {version}, known \
        is {KNOWN}; update hawser"
    )]
    Newer {
        /// File of the database.
        path: PathBuf,
        /// Its format.
        version: i64,
    },
    /// The database is damaged and cannot be set aside.
    #[error("the damaged usage database {path} can't be set aside: {source}")]
    SetAside {
        /// File of the database.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
}

impl UsageError {
    /// Neither another program nor another version is in the way.
    fn is_of_disk(&self) -> bool {
        let Self::Database { source, .. } = self else {
            return false;
        };
        let code = source.sqlite_error_code();
        !matches!(
            code,
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
        )
    }
}

impl UsageDatabase {
    /// Opens or creates the usage database at `path`. A damaged one is renamed and replaced by an
    /// empty one. Of one that can be read and not written, as on a full disk, there is a copy in
    /// memory; each charge tries to write what it has more to the file. A symbolic link is refused,
    /// so that root cannot be redirected from a service's directory.
    pub fn open(path: &Path) -> Result<(Self, Option<Trouble>), UsageError> {
        match Self::open_sound(path) {
            Ok(ledger) => Ok((ledger, None)),
            Err(UsageError::Database { source, .. }) if is_damage(&source) => {
                let aside = set_aside(path)?;
                Ok((Self::open_sound(path)?, Some(Trouble::SetAside(aside))))
            }
            Err(error) if error.is_of_disk() => match Self::open_in_memory(path) {
                Ok(ledger) => Ok((ledger, Some(Trouble::InMemory(error)))),
                Err(_) => Err(error),
            },
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
        upgrade(&mut database, path)?;
        let unwritten = None;
        Ok(Self {
            database,
            unwritten,
        })
    }

    /// Returns the traffic of each link in its latest month with traffic. Months that began later
    /// than [`Date::latest_beginning`] of `today` stay in the file and do not count: the clock was
    /// wrong then.
    pub fn usage(&self, today: Date) -> Result<BTreeMap<String, Usage>, UsageError> {
        self.read(today).map_err(|source| self.failed(source))
    }

    /// Adds traffic to months of links, all of it or none.
    pub fn charge(&mut self, charges: &BTreeMap<String, Usage>) -> Result<(), UsageError> {
        self.try_file();
        let charges = charges.iter().map(|(link, usage)| (link.as_str(), usage));
        let written = self.change(|change| write_usage(change, charges.clone()));
        written.map_err(|source| self.failed(source))?;
        if let Some(unwritten) = &mut self.unwritten {
            unwritten.add(charges);
        }
        Ok(())
    }

    fn read(&self, today: Date) -> rusqlite::Result<BTreeMap<String, Usage>> {
        let mut query = self.database.prepare_cached(
            "SELECT link, since, up, down FROM usage AS latest \
             WHERE since = (\
                SELECT max(since) FROM usage WHERE link = latest.link AND since <= ?1\
             )",
        )?;
        let latest = write_day(today.latest_beginning());
        let rows = query.query_map([latest], |row| {
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

    /// Runs `write` in a transaction.
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

/// Resolves all symbolic links in the path of the folder, since SQLite follows none when it must
/// not follow the file's.
fn in_real_folder(path: &Path) -> PathBuf {
    match (path.parent().map(Path::canonicalize), path.file_name()) {
        (Some(Ok(folder)), Some(name)) => folder.join(name),
        _ => path.to_path_buf(),
    }
}

fn write_usage<'a>(
    change: &Transaction<'_>,
    charges: impl Iterator<Item = (&'a str, &'a Usage)>,
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

/// Converts a count to the database's type.
fn count(bytes: ByteCount) -> i64 {
    bytes.as_u64().min(MOST as u64) as i64
}

fn bytes(count: i64) -> ByteCount {
    ByteCount::new(count.try_into().unwrap_or(0))
}

/// Makes commits durable, and verifies the whole file once.
fn prepare(database: &Connection) -> rusqlite::Result<()> {
    database.busy_timeout(PATIENCE)?;
    let verdict: String = database.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if verdict != "ok" {
        let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
        return Err(rusqlite::Error::SqliteFailure(code, None));
    }
    database.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
    database.execute_batch("PRAGMA synchronous = FULL")
}

/// Upgrades the schema of a file, unless it is of a later version.
fn upgrade(database: &mut Connection, path: &Path) -> Result<(), UsageError> {
    let path = path.to_path_buf();
    match migrate(database) {
        Ok(version) if version > KNOWN => Err(UsageError::Newer { path, version }),
        Ok(_) => Ok(()),
        Err(source) => Err(UsageError::Database { path, source }),
    }
}

/// Upgrades the schema; returns its version.
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

/// Tells whether the file is damaged or not this database.
fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
    )
}

/// Renames the file and SQLite's files beside it. What was set aside before gives way.
fn set_aside(path: &Path) -> Result<PathBuf, UsageError> {
    let beside = |path: &Path, suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    let aside = beside(path, ".damaged");
    std::fs::rename(path, &aside).map_err(|source| UsageError::SetAside {
        path: path.to_path_buf(),
        source,
    })?;
    for suffix in ["-wal", "-shm"] {
        // They may be missing; leftovers of another file would not fit the new one.
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

/// Upgrade steps, one for each version.
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
/// Maximum count, far more than any link carries in a month; the sum of two still fits.
const MOST: i64 = i64::MAX / 4;
/// Maximum wait for another program that is writing.
const PATIENCE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests;
