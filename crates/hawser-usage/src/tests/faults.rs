//! A power cut after any write, and a disk that is full at any page: what a charge leaves behind.

use std::fs;

use super::*;

/// The database and its log before a charge is in the database, and the database with it.
struct Files {
    database: Vec<u8>,
    log: Vec<u8>,
    /// The database once the log is moved into it.
    moved: Vec<u8>,
}

fn log_of(path: &Path) -> PathBuf {
    path.with_extension("db-wal")
}

/// Charges 1 byte, which is in the database, then 10 more, which are in the log.
fn charge_twice() -> Files {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    // The log is moved into the database when the last program closes it.
    drop(charged(&path, 1));
    let database = fs::read(&path).unwrap();
    let open = charged(&path, 10);
    let log = fs::read(log_of(&path)).unwrap();
    assert!(
        fs::read(&path).unwrap() == database,
        "the log is moved too early"
    );
    drop(open);
    let moved = fs::read(&path).unwrap();
    assert!(moved != database && !log_of(&path).exists());
    Files {
        database,
        log,
        moved,
    }
}

fn charged(path: &Path, up: u64) -> UsageDatabase {
    let mut ledger = open(path);
    ledger
        .charge(&charge("wwan0", november(1), up, 2 * up))
        .unwrap();
    ledger
}

/// Reads what a restart finds in these files, and checks that charges go on.
fn restart(database: &[u8], log: &[u8]) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    fs::write(&path, database).unwrap();
    fs::write(log_of(&path), log).unwrap();
    let found = open(&path).usage(november(1)).unwrap()["wwan0"];
    assert_eq!(found.down.as_u64(), 2 * found.up.as_u64());
    let usage = charged(&path, 100).usage(november(1)).unwrap()["wwan0"];
    assert_eq!(usage.up.as_u64(), found.up.as_u64() + 100);
    found.up.as_u64()
}

#[test]
fn a_log_that_ends_at_any_byte_holds_the_charge_or_does_not() {
    let Files { database, log, .. } = charge_twice();
    let mut is_charged = false;
    for end in (0..log.len()).step_by(61).chain([log.len()]) {
        let found = restart(&database, &log[..end]);
        assert!(found == 1 || found == 11, "{found} with {end} bytes");
        // Once enough was written, more harms nothing.
        assert!(found == 11 || !is_charged, "{found} with {end} bytes");
        is_charged = found == 11;
    }
    assert!(is_charged);
}

#[test]
fn a_database_that_the_log_was_half_moved_into_has_the_charge() {
    let Files {
        database,
        log,
        moved,
    } = charge_twice();
    for end in (0..moved.len()).step_by(512) {
        let rest = database.get(end..).unwrap_or_default();
        let torn = [&moved[..end], rest].concat();
        assert_eq!(restart(&torn, &log), 11, "{end} bytes were moved");
    }
}

#[test]
fn a_disk_that_is_full_at_any_page_refuses_the_whole_charge_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    let mut ledger = charged(&path, 1);
    let all: BTreeMap<_, _> = (0..2000)
        .flat_map(|n| charge(&format!("link{n}"), november(1), 1, 1))
        .collect();
    let limit = |ledger: &UsageDatabase, pages: i64| {
        let name = "max_page_count";
        let set = ledger
            .database
            .pragma_update_and_check(None, name, pages, |_| Ok(()));
        set.unwrap();
    };
    let pages = ledger
        .database
        .query_row("PRAGMA page_count", [], |row| row.get(0));
    let mut pages: i64 = pages.unwrap();
    let first = pages;
    loop {
        limit(&ledger, pages);
        let outcome = ledger.charge(&all);
        let links = open(&path).usage(november(1)).unwrap().len();
        match outcome {
            Ok(()) => {
                assert_eq!(links, 2001);
                break;
            }
            Err(error) => {
                assert_eq!(links, 1, "with {pages} pages");
                let error = error.to_string();
                assert!(
                    error.contains("ledger.db") && error.contains("full"),
                    "{error}"
                );
            }
        }
        pages += 1;
    }
    assert!(pages > first + 5, "the charge needs few pages");
}
