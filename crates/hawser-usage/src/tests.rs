mod faults;

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use super::*;

const fn november(day: u8) -> Date {
    Date::new(2026, 11, day).unwrap()
}

const TODAY: Date = november(30);

fn charge(link: &str, since: Date, up: u64, down: u64) -> BTreeMap<String, Usage> {
    let (up, down) = (ByteCount::new(up), ByteCount::new(down));
    BTreeMap::from([(link.to_owned(), Usage { since, up, down })])
}

fn open(path: &Path) -> UsageDatabase {
    let (ledger, aside) = UsageDatabase::open(path).unwrap();
    assert!(aside.is_none(), "{aside:?}");
    ledger
}

#[test]
fn charges_add_up_over_restarts_and_from_two_programs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    open(&path)
        .charge(&charge("wwan0", november(1), 5, 7))
        .unwrap();
    let (mut one, mut other) = (open(&path), open(&path));
    one.charge(&charge("wwan0", november(1), 10, 0)).unwrap();
    other.charge(&charge("wwan0", november(1), 0, 20)).unwrap();
    other.charge(&charge("eth0", november(1), 1, 1)).unwrap();
    let usage = one.usage(TODAY).unwrap();
    assert_eq!(usage["wwan0"], charge("", november(1), 15, 27)[""]);
    assert_eq!(usage.len(), 2);
}

#[test]
fn a_new_month_begins_at_nothing_and_the_latest_one_counts() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = open(&folder.path().join("ledger.db"));
    let october = Date::new(2026, 10, 31).unwrap();
    ledger.charge(&charge("wwan0", november(30), 3, 0)).unwrap();
    ledger.charge(&charge("wwan0", october, 100, 0)).unwrap();
    assert_eq!(ledger.usage(TODAY).unwrap()["wwan0"].up, ByteCount::new(3));
}

#[test]
fn a_month_that_a_wrong_clock_began_does_not_swallow_the_present_one() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = open(&folder.path().join("ledger.db"));
    let future = Date::new(2099, 1, 1).unwrap();
    ledger.charge(&charge("wwan0", november(1), 5, 0)).unwrap();
    ledger.charge(&charge("wwan0", future, 100, 0)).unwrap();
    ledger.charge(&charge("eth0", future, 100, 0)).unwrap();
    let usage = ledger.usage(TODAY).unwrap();
    assert_eq!(usage["wwan0"], charge("", november(1), 5, 0)[""]);
    assert!(!usage.contains_key("eth0"));
    // Before the clock is set, the latest month is the likeliest.
    let unset = ledger.usage(Date::after_1970(0)).unwrap();
    assert_eq!(unset["wwan0"].since, future);
}

#[test]
fn counts_stay_within_what_the_file_can_hold() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = open(&folder.path().join("ledger.db"));
    for _ in 0..5 {
        let most = charge("wwan0", november(1), u64::MAX, u64::MAX);
        ledger.charge(&most).unwrap();
    }
    assert!(ledger.usage(TODAY).unwrap()["wwan0"].up > ByteCount::new(1 << 60));
}

#[test]
fn a_damaged_file_is_set_aside_and_a_new_one_begun() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    let mut ledger = open(&path);
    for n in 0..2000 {
        ledger
            .charge(&charge(&format!("l{n}"), november(1), 1, 1))
            .unwrap();
    }
    drop(ledger);
    let sound = std::fs::read(&path).unwrap();
    let mut torn = sound.clone();
    torn[4096..].fill(0x5a);
    for content in [&b"not a database at all, and longer than its header is, which is a hundred bytes and no more"[..].repeat(9), &torn] {
        std::fs::write(&path, content).unwrap();
        let (mut ledger, aside) = UsageDatabase::open(&path).unwrap();
        let Some(Trouble::SetAside(aside)) = aside else {
            panic!("{aside:?}");
        };
        assert_eq!(std::fs::read(aside).unwrap(), *content);
        assert_eq!(ledger.usage(TODAY).unwrap(), BTreeMap::new());
        ledger.charge(&charge("eth0", november(1), 1, 1)).unwrap();
    }
}

#[test]
fn a_link_is_not_followed_but_its_folder_may_be_one() {
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().unwrap();
    let [real, linked] = ["real", "linked"].map(|name| folder.path().join(name));
    std::fs::create_dir(&real).unwrap();
    symlink(&real, &linked).unwrap();
    open(&linked.join("ledger.db"));
    assert!(real.join("ledger.db").exists());
    let elsewhere = folder.path().join("elsewhere");
    symlink(&elsewhere, real.join("other.db")).unwrap();
    let error = UsageDatabase::open(&real.join("other.db")).unwrap_err();
    assert!(matches!(error, UsageError::Database { .. }), "{error}");
    assert!(!elsewhere.exists());
}

#[test]
fn the_file_of_a_later_version_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    let ledger = open(&path);
    ledger
        .database
        .execute_batch("PRAGMA user_version = 7")
        .unwrap();
    drop(ledger);
    let error = UsageDatabase::open(&path).unwrap_err();
    assert!(
        matches!(error, UsageError::Newer { version: 7, .. }),
        "{error}"
    );
}

/// Opens a database that cannot be written, since the index of its log cannot be made.
fn open_unwritable(path: &Path) -> UsageDatabase {
    std::fs::create_dir(path.with_extension("db-shm")).unwrap();
    let (ledger, trouble) = UsageDatabase::open(path).unwrap();
    assert!(matches!(trouble, Some(Trouble::InMemory(_))), "{trouble:?}");
    ledger
}

fn make_writable(path: &Path) {
    std::fs::remove_dir(path.with_extension("db-shm")).unwrap();
}

#[test]
fn of_a_file_that_can_not_be_written_the_month_is_known_and_counts_on_until_it_can() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("what? 100% ü#.db");
    open(&path)
        .charge(&charge("wwan0", november(1), 5, 7))
        .unwrap();
    let mut ledger = open_unwritable(&path);
    let up = |ledger: &UsageDatabase| ledger.usage(TODAY).unwrap()["wwan0"].up.as_u64();
    assert_eq!(up(&ledger), 5);
    for more in [10, 20] {
        ledger
            .charge(&charge("wwan0", november(1), more, 0))
            .unwrap();
    }
    assert_eq!(up(&ledger), 35);
    make_writable(&path);
    assert_eq!(up(&open(&path)), 5);
    // Another program charges its own meanwhile.
    open(&path)
        .charge(&charge("wwan0", november(1), 100, 0))
        .unwrap();
    ledger
        .charge(&charge("wwan0", november(1), 1000, 0))
        .unwrap();
    assert_eq!(up(&ledger), 1135);
    assert_eq!(up(&open(&path)), 1135);
    assert_eq!(open(&path).usage(TODAY).unwrap()["wwan0"].down.as_u64(), 7);
}

#[test]
fn charges_in_the_log_of_a_program_that_was_killed_are_known_on_a_full_disk() {
    let folder = tempfile::tempdir().unwrap();
    let [path, copy] = ["ledger.db", "copy.db"].map(|name| folder.path().join(name));
    let mut ledger = open(&path);
    ledger.charge(&charge("wwan0", november(1), 5, 0)).unwrap();
    for of in [
        |path: &Path| path.to_owned(),
        |path: &Path| path.with_extension("db-wal"),
    ] {
        std::fs::copy(of(&path), of(&copy)).unwrap();
    }
    let ledger = open_unwritable(&copy);
    assert_eq!(ledger.usage(TODAY).unwrap()["wwan0"].up.as_u64(), 5);
    make_writable(&copy);
    drop(ledger);
    assert_eq!(open(&copy).usage(TODAY).unwrap()["wwan0"].up.as_u64(), 5);
}

#[test]
fn without_a_file_on_a_full_disk_counting_begins_and_is_written_later() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    let mut ledger = open_unwritable(&path);
    ledger.charge(&charge("wwan0", november(1), 5, 0)).unwrap();
    make_writable(&path);
    ledger.charge(&charge("eth0", november(1), 1, 0)).unwrap();
    assert_eq!(open(&path).usage(TODAY).unwrap().len(), 2);
}

/// Charges one byte at a time and reports it, until it is killed.
fn charge_until_killed(path: &Path) -> ! {
    let mut ledger = open(path);
    loop {
        ledger.charge(&charge("wwan0", november(1), 1, 2)).unwrap();
        println!("charged");
        std::io::stdout().flush().unwrap();
    }
}

#[test]
fn what_was_charged_is_there_after_a_kill_in_the_midst_of_writing_and_nothing_twice() {
    // The test runs itself again, as a process that can be killed.
    if let Some(path) = std::env::var_os(CHILD) {
        charge_until_killed(Path::new(&path));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    let mut before = 0;
    for round in 0..6_usize {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", THIS, "--nocapture"])
            .env(CHILD, &path)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut is_charge = || {
            lines
                .next()
                .is_some_and(|line| line.unwrap().ends_with("charged"))
        };
        let mut told = 0;
        while told < 5 + 7 * round {
            told += usize::from(is_charge());
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // Reports before the kill took effect.
        told += std::iter::from_fn(|| is_charge().then_some(())).count();
        let usage = open(&path).usage(TODAY).unwrap()["wwan0"];
        let charged = usage.up.as_u64() - before;
        assert_eq!(usage.down.as_u64(), 2 * usage.up.as_u64());
        // One charge may have been committed but not reported.
        let told = told as u64;
        assert!((told..=told + 1).contains(&charged), "{charged} for {told}");
        before += charged;
    }
}

const CHILD: &str = "HAWSER_LEDGER_TEST";
const THIS: &str =
    "tests::what_was_charged_is_there_after_a_kill_in_the_midst_of_writing_and_nothing_twice";
