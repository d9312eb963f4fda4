//! The shipped scenarios, as committed tables of whole numbers.

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
use hawser_wire::TransportChoice;

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
    let expected = Expected {
        table: include_str!("hunt.txt"),
        file: "hunt.txt",
        causes: include_str!("hunt_causes.txt"),
        broken: 6,
    };
    assert_hunt(TransportChoice::Tcp, &expected);
}

#[test]
fn what_hunts_have_found_gives_the_committed_table_over_the_default_transport() {
    let expected = Expected {
        table: include_str!("hunt_auto.txt"),
        file: "hunt_auto.txt",
        causes: include_str!("hunt_auto_causes.txt"),
        broken: 5,
    };
    assert_hunt(TransportChoice::Auto, &expected);
}

/// A committed table, with the rows that break a promise and their causes.
struct Expected<'a> {
    table: &'a str,
    file: &'a str,
    /// The causes; each row that breaks a promise is a line that is indented.
    causes: &'a str,
    /// Number of rows that break a promise. It may only fall.
    broken: usize,
}

impl Expected<'_> {
    /// Compares the rows that break a promise with those whose causes are known.
    fn assert_broken(&self, broken: &BTreeSet<String>) {
        let listed = self
            .causes
            .lines()
            .filter_map(|line| line.strip_prefix("  "));
        let listed: BTreeSet<&str> = listed.collect();
        let rows: BTreeSet<&str> = broken.iter().map(String::as_str).collect();
        assert_eq!(rows, listed, "the causes for {} list other rows", self.file);
        let message = "the number of broken promises may only fall";
        assert_eq!(broken.len(), self.broken, "{}: {message}", self.file);
    }
}

/// Transfers below the best single link break a promise.
fn assert_hunt(transport: TransportChoice, expected: &Expected<'_>) {
    let run = |scenario: &Scenario| {
        let direction = scenario.directions[0];
        let options = Options {
            payload: None,
            ..options_over(transport, scenario, direction)
        };
        experiment::run(scenario, direction, &options)
    };
    let found = all_in(&folder().join("hunt"));
    let reports: Vec<TransferReport> = found.iter().map(run).collect();
    let mut broken = BTreeSet::new();
    for report in &reports {
        for (transfer, which) in report.transfers.iter().zip(["first", "warm"]) {
            if transfer.of_best.is_none_or(|of_best| of_best < OF_BEST) {
                broken.insert(format!("{} {which}", report.scenario));
            }
        }
    }
    expected.assert_broken(&broken);
    let arguments = format!("run scenarios/hunt/*.toml --transport {}", transport.name());
    compare(&Table(&reports), expected.table, &arguments, expected.file);
}

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
    let expected = Expected {
        table: include_str!("failover.txt"),
        file: "failover.txt",
        causes: include_str!("failover_causes.txt"),
        broken: 20,
    };
    assert_failover(TransportChoice::Tcp, &Failure::ALL, &expected);
}

#[test]
fn links_that_fail_and_return_give_the_committed_table_over_the_default_transport() {
    let expected = Expected {
        table: include_str!("failover_auto.txt"),
        file: "failover_auto.txt",
        causes: include_str!("failover_auto_causes.txt"),
        broken: 7,
    };
    let failures = [Failure::BlackHole, Failure::Carrier, Failure::Idle];
    assert_failover(TransportChoice::Auto, &failures, &expected);
}

fn assert_failover(transport: TransportChoice, failures: &[Failure], expected: &Expected<'_>) {
    let mut reports = Vec::new();
    for name in FAILING {
        let scenario = load(&folder().join(format!("{name}.toml")));
        let options = options_over(transport, &scenario, Direction::Get);
        for link in 0..scenario.links.len() {
            for failure in failures {
                let report = failover::run(&scenario, Direction::Get, link, *failure, &options);
                reports.extend(report);
            }
        }
    }
    let is_broken = |report: &&FailoverReport| report.is_gap_broken() || report.is_return_broken();
    let name = |report: &FailoverReport| {
        let (scenario, link) = (&report.scenario, report.link);
        format!("{scenario} {link} {}", report.failure.name())
    };
    let broken = reports.iter().filter(is_broken).map(name).collect();
    expected.assert_broken(&broken);
    let files = FAILING.map(|name| format!("scenarios/{name}.toml"));
    let failures: String = failures
        .iter()
        .map(|failure| format!(" --failure {}", failure.name()))
        .collect();
    let arguments = format!(
        "failover {} --direction get --transport {}{failures}",
        files.join(" "),
        transport.name()
    );
    compare(
        &Failovers(&reports),
        expected.table,
        &arguments,
        expected.file,
    );
}

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
         cargo run --release -p hawser-sim -- {arguments} > instruments/hawser-sim/tests/{file}"
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
    options_over(TransportChoice::Tcp, scenario, direction)
}

fn options_over(transport: TransportChoice, scenario: &Scenario, direction: Direction) -> Options {
    let span = std::time::Duration::from_secs(SECONDS);
    let payload: ByteCount = scenario.total_rate(direction) * span;
    let bond = BondConfig {
        transport,
        ..BondConfig::default()
    };
    Options {
        payload: Some(payload),
        transfers: 2,
        singles: Singles::Undisturbed,
        ..Options::new(scenario.seed, bond)
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
