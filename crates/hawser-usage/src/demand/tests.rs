use std::time::Duration;

use hawser_sched::rules::{Date, Usage};
use hawser_types::ByteCount;
use rusqlite::{Connection, ErrorCode};

use super::*;
use crate::STEPS;

fn key(application: &str, ports: PortClass) -> DemandKey {
    (application.to_owned(), ports)
}

fn estimate(up: u64, down: u64, connections: u64) -> DemandEstimate {
    DemandEstimate {
        up: ByteCount::new(up),
        down: ByteCount::new(down),
        connections,
    }
}

fn one(application: &str, down: u64) -> BTreeMap<DemandKey, DemandEstimate> {
    BTreeMap::from([(key(application, PortClass::Web), estimate(1, down, 1))])
}

fn folder() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    (folder, path)
}

fn open(path: &std::path::Path) -> UsageDatabase {
    let (ledger, aside) = UsageDatabase::open(path).unwrap();
    assert!(aside.is_none());
    ledger
}

fn code(error: &UsageError) -> Option<ErrorCode> {
    match error {
        UsageError::Database { source, .. } => source.sqlite_error_code(),
        _ => None,
    }
}

#[test]
fn demands_are_there_again_and_the_newest_counts() {
    let (_folder, path) = folder();
    let mut demands = BTreeMap::from([
        (key("curl", PortClass::Web), estimate(5, 7, 2)),
        (key("curl", PortClass::Shell), estimate(1, 1, 1)),
        (key("", PortClass::Dynamic), estimate(0, u64::MAX, u64::MAX)),
    ]);
    open(&path).keep_demands(&demands, 100).unwrap();
    let newer = BTreeMap::from([(key("curl", PortClass::Web), estimate(6, 8, 3))]);
    open(&path).keep_demands(&newer, u64::MAX).unwrap();
    demands.extend(newer);
    // The maximum that the file can hold.
    let most = MOST as u64;
    demands.insert(key("", PortClass::Dynamic), estimate(0, most, most));
    assert_eq!(open(&path).demands().unwrap(), demands);
}

#[test]
fn people_can_query_them() {
    let (_folder, path) = folder();
    open(&path)
        .keep_demands(&one("curl", 7), 1_700_000_000)
        .unwrap();
    let database = Connection::open(&path).unwrap();
    let row: (String, i64, i64) = database
        .query_row(
            "SELECT ports, down, updated FROM demand WHERE application = 'curl'",
            [],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
        )
        .unwrap();
    assert_eq!(row, ("web".to_owned(), 7, 1_700_000_000));
}

#[test]
fn only_so_many_are_kept_and_the_oldest_go() {
    let (_folder, path) = folder();
    let mut ledger = open(&path);
    ledger.keep_demands(&one("old", 1), 1).unwrap();
    ledger.keep_demands(&one("older", 1), 0).unwrap();
    let many = (1..MAX_DEMANDS).flat_map(|n| one(&format!("p{n}"), 1));
    ledger.keep_demands(&many.collect(), 2).unwrap();
    let kept = ledger.demands().unwrap();
    assert_eq!(kept.len(), MAX_DEMANDS as usize);
    assert!(kept.contains_key(&key("old", PortClass::Web)));
    assert!(!kept.contains_key(&key("older", PortClass::Web)));
}

#[test]
fn a_ledger_of_the_first_format_keeps_what_it_has_counted() {
    let (_folder, path) = folder();
    let database = Connection::open(&path).unwrap();
    database.execute_batch(STEPS[0]).unwrap();
    database
        .execute_batch("INSERT INTO usage VALUES ('wwan0', 20261101, 5, 7)")
        .unwrap();
    drop(database);
    let mut ledger = open(&path);
    let usage = Usage {
        since: Date::new(2026, 11, 1).unwrap(),
        up: ByteCount::new(5),
        down: ByteCount::new(7),
    };
    assert_eq!(ledger.usage(Date::after_1970(0)).unwrap()["wwan0"], usage);
    assert_eq!(ledger.demands().unwrap(), BTreeMap::new());
    ledger.keep_demands(&one("curl", 7), 1).unwrap();
    assert_eq!(open(&path).demands().unwrap(), one("curl", 7));
}

#[test]
fn a_full_disk_is_said_and_changes_nothing() {
    let (_folder, path) = folder();
    let mut ledger = open(&path);
    ledger.keep_demands(&one("curl", 7), 1).unwrap();
    let limit = |ledger: &UsageDatabase, pages: u32| {
        let sql = format!("PRAGMA max_page_count = {pages}");
        ledger.database.query_row(&sql, [], |_| Ok(())).unwrap();
    };
    limit(&ledger, 1);
    let name = "x".repeat(300);
    let many = (0..1000).flat_map(|n| one(&format!("{name}{n}"), 1));
    let many: BTreeMap<_, _> = many.chain(one("curl", 9)).collect();
    let error = ledger.keep_demands(&many, 2).unwrap_err();
    assert_eq!(code(&error), Some(ErrorCode::DiskFull), "{error}");
    assert!(error.to_string().contains("full"), "{error}");
    assert_eq!(ledger.demands().unwrap(), one("curl", 7));
    // It continues as soon as there is room again.
    limit(&ledger, 1_000_000);
    ledger.keep_demands(&many, 3).unwrap();
    assert_eq!(ledger.demands().unwrap().len(), many.len());
}

#[test]
fn a_ledger_that_another_holds_is_said_to_be_locked_and_changes_nothing() {
    let (_folder, path) = folder();
    let mut ledger = open(&path);
    ledger.keep_demands(&one("curl", 7), 1).unwrap();
    ledger.database.busy_timeout(Duration::ZERO).unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = ledger.keep_demands(&one("curl", 9), 2).unwrap_err();
    assert_eq!(code(&error), Some(ErrorCode::DatabaseBusy), "{error}");
    assert_eq!(ledger.demands().unwrap(), one("curl", 7));
    other.execute_batch("COMMIT").unwrap();
    ledger.keep_demands(&one("curl", 9), 2).unwrap();
}

#[test]
fn a_ledger_that_is_damaged_while_it_is_open_is_an_error_and_no_panic() {
    let (_folder, path) = folder();
    let name = "x".repeat(300);
    let many: BTreeMap<_, _> = (0..1000)
        .flat_map(|n| one(&format!("{name}{n}"), 1))
        .collect();
    open(&path).keep_demands(&many, 1).unwrap();
    let mut ledger = open(&path);
    let mut torn = std::fs::read(&path).unwrap();
    torn[4096..].fill(0x5a);
    std::fs::write(&path, torn).unwrap();
    // Data read at opening is still in memory.
    let forget = "PRAGMA cache_size = 0; PRAGMA shrink_memory";
    ledger.database.execute_batch(forget).unwrap();
    let error = ledger.demands().err().unwrap();
    assert_eq!(code(&error), Some(ErrorCode::DatabaseCorrupt), "{error}");
    assert!(ledger.keep_demands(&many, 2).is_err());
}

#[test]
fn rows_that_this_version_does_not_know_are_passed_over() {
    let (_folder, path) = folder();
    let mut ledger = open(&path);
    ledger.keep_demands(&one("curl", 7), 1).unwrap();
    ledger
        .database
        .execute_batch("INSERT INTO demand VALUES ('curl', 'telex', 1, -1, -5, 1)")
        .unwrap();
    assert_eq!(ledger.demands().unwrap(), one("curl", 7));
}
