//! The shipped scenarios, as tables of whole numbers that are committed.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::{Path, PathBuf};

use hawser_scenario::promise::OF_BEST;
use hawser_scenario::{Congestion, Direction, Scenario};
use hawser_sim::bond::BondConfig;
use hawser_sim::experiment::{self, Options, Singles, TransferReport};
use hawser_sim::failover::{self, FailoverReport, Failure};
use hawser_sim::fairness;
use hawser_sim::table::{Failovers, Fairness, Table};
use hawser_types::ByteCount;

/// Seconds of the links' rates that one transfer carries.
const SECONDS: u64 = 2;
const ALL: &str = "scenarios/*.toml";
/// The scenarios whose links fail, one after the other: alike, of different length, and cellular.
const FAILING: [&str; 6] = [
    "black-hole-20-20",
    "wifi-lte",
    "het-rtt",
    "cellular",
    "on-off",
    "bat-e1",
];

#[test]
fn bulk_gives_the_committed_table() {
    let reports: Vec<TransferReport> = shipped()
        .iter()
        .flat_map(|s| both_ways(s, &options))
        .collect();
    let arguments = format!("run {ALL} --direction both --seconds {SECONDS}");
    compare(
        &Table(&reports),
        include_str!("bulk.txt"),
        &arguments,
        "bulk.txt",
    );
}

#[test]
fn what_hunts_have_found_gives_the_committed_table() {
    let run = |scenario: &Scenario| {
        let direction = scenario.directions[0];
        let options = Options {
            payload: None,
            ..options(scenario, direction)
        };
        experiment::run(scenario, direction, &options)
    };
    let found = all_in(&folder().join("hunt"));
    let reports: Vec<TransferReport> = found.iter().map(run).collect();
    assert_hunt_causes(&reports);
    let arguments = "run scenarios/hunt/*.toml";
    compare(
        &Table(&reports),
        include_str!("hunt.txt"),
        arguments,
        "hunt.txt",
    );
}

/// Every transfer below the best single link has its cause in `hunt_causes.txt`, and no other has.
fn assert_hunt_causes(reports: &[TransferReport]) {
    let mut broken = BTreeSet::new();
    for report in reports {
        for (transfer, which) in report.transfers.iter().zip(["first", "warm"]) {
            if transfer.of_best.is_none_or(|of_best| of_best < OF_BEST) {
                broken.insert(format!("{} {which}", report.scenario));
            }
        }
    }
    assert_listed(&broken, include_str!("hunt_causes.txt"), "hunt_causes.txt");
    assert!(
        broken.len() <= BELOW_BEST,
        "the number of transfers below the best link may only fall"
    );
}

/// Compares the rows that break a promise with those that a file of causes lists, indented.
fn assert_listed(broken: &BTreeSet<String>, causes: &str, file: &str) {
    let listed = causes.lines().filter_map(|line| line.strip_prefix("  "));
    let listed: BTreeSet<&str> = listed.collect();
    let broken: BTreeSet<&str> = broken.iter().map(String::as_str).collect();
    assert_eq!(broken, listed, "{file} lists other rows");
}

/// Transfers of the table of hunts below the best single link. This number may only fall.
const BELOW_BEST: usize = 5;

#[test]
fn an_interactive_stream_beside_bulk_gives_the_committed_table() {
    let reports: Vec<TransferReport> = shipped()
        .iter()
        .flat_map(|s| both_ways(s, &beside_ticks))
        .collect();
    let arguments = format!(
        "run {ALL} --direction both --seconds {SECONDS} --ticks --transfers 1 --no-singles"
    );
    compare(
        &Table(&reports),
        include_str!("ticks.txt"),
        &arguments,
        "ticks.txt",
    );
}

#[test]
fn links_that_fail_and_return_give_the_committed_table() {
    let mut reports = Vec::new();
    for name in FAILING {
        let scenario = load(&folder().join(format!("{name}.toml")));
        let options = options(&scenario, Direction::Get);
        for link in 0..scenario.links.len() {
            for failure in Failure::ALL {
                let report = failover::run(&scenario, Direction::Get, link, failure, &options);
                reports.extend(report);
            }
        }
    }
    let files = FAILING
        .map(|name| format!("scenarios/{name}.toml"))
        .join(" ");
    assert_causes(&reports);
    let arguments = format!("failover {files} --direction get");
    compare(
        &Failovers(&reports),
        include_str!("failover.txt"),
        &arguments,
        "failover.txt",
    );
}

/// Every row that breaks a promise has its cause in `failover_causes.txt`, and no other row does.
fn assert_causes(reports: &[FailoverReport]) {
    let broken = reports
        .iter()
        .filter(|report| report.is_gap_broken() || report.is_return_broken())
        .map(|report| {
            let (scenario, link) = (&report.scenario, report.link);
            format!("{scenario} {link} {}", report.failure.name())
        });
    let broken: BTreeSet<String> = broken.collect();
    let causes = include_str!("failover_causes.txt");
    assert_listed(&broken, causes, "failover_causes.txt");
    assert_eq!(
        broken.len(),
        BROKEN,
        "the number of broken promises may only fall"
    );
}

/// Rows of the table of failures that break a promise. This number may only fall.
const BROKEN: usize = 25;

#[test]
fn a_link_shared_with_plain_tcp_gives_the_committed_table() {
    let mut reports = Vec::new();
    for name in SHARED {
        let scenario = load(&folder().join(format!("{name}.toml")));
        let options = options(&scenario, Direction::Get);
        for count in [1, 4] {
            for rival in Congestion::ALL {
                let report = fairness::run(&scenario, Direction::Get, 0, (rival, count), &options);
                reports.extend(report);
            }
        }
    }
    let files = SHARED
        .map(|name| format!("scenarios/{name}.toml"))
        .join(" ");
    compare(
        &Fairness(&reports),
        include_str!("fairness.txt"),
        &format!("fairness {files}"),
        "fairness.txt",
    );
}

#[test]
fn one_seed_gives_one_result_and_another_seed_another() {
    let scenario = load(&folder().join("lossy-both.toml"));
    let run = |seed| {
        let options = Options {
            seed,
            ..options(&scenario, Direction::Get)
        };
        experiment::run(&scenario, Direction::Get, &options)
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7).transfers, run(8).transfers);
}

fn compare(table: &dyn Display, expected: &str, arguments: &str, file: &str) {
    let table = table.to_string();
    let first = table
        .lines()
        .zip(expected.lines())
        .find(|(new, old)| new != old);
    assert!(
        table == expected,
        "{file}: the first line that differs is\n{first:?}\nIf that is meant, commit what this gives:\n\
         cargo run --release -p hawser-sim -- {arguments} > crates/hawser-sim/tests/{file}"
    );
}

/// The scenarios whose first links are shared.
const SHARED: [&str; 4] = ["black-hole-20-20", "pat-e2-16m", "wifi-lte", "adsl-adsl"];

type MakeOptions = dyn Fn(&Scenario, Direction) -> Options;

fn both_ways(scenario: &Scenario, options: &MakeOptions) -> Vec<TransferReport> {
    let run = |direction| experiment::run(scenario, direction, &options(scenario, direction));
    [Direction::Put, Direction::Get].map(run).into()
}

fn beside_ticks(scenario: &Scenario, direction: Direction) -> Options {
    Options {
        transfers: 1,
        singles: Singles::None,
        ticks: true,
        ..options(scenario, direction)
    }
}

fn options(scenario: &Scenario, direction: Direction) -> Options {
    let span = std::time::Duration::from_secs(SECONDS);
    let payload: ByteCount = scenario.total_rate(direction) * span;
    Options {
        payload: Some(payload),
        transfers: 2,
        singles: Singles::Undisturbed,
        ..Options::new(scenario.seed, BondConfig::default())
    }
}

fn shipped() -> Vec<Scenario> {
    all_in(&folder())
}

/// In the order in which a shell names them.
fn all_in(folder: &Path) -> Vec<Scenario> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "toml"));
    paths.sort();
    assert!(!paths.is_empty());
    paths.iter().map(|path| load(path)).collect()
}

fn load(path: &Path) -> Scenario {
    Scenario::load(path, &read).unwrap()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

fn read(path: &Path) -> std::io::Result<String> {
    std::fs::read_to_string(path)
}
