//! The shipped scenarios, as tables of whole numbers that are committed.

use std::path::{Path, PathBuf};

use hawser_scenario::{Direction, Scenario};
use hawser_sim::bond::BondConfig;
use hawser_sim::experiment::{self, Options, Report, Singles};
use hawser_sim::table::Table;
use hawser_types::ByteCount;

/// Seconds of the links' rates that one transfer carries.
const SECONDS: u64 = 2;

#[test]
fn bulk_gives_the_committed_table() {
    let reports: Vec<Report> = shipped()
        .iter()
        .flat_map(|s| both_ways(s, &options))
        .collect();
    compare(&reports, include_str!("bulk.txt"), "", "bulk.txt");
}

#[test]
fn an_interactive_stream_beside_bulk_gives_the_committed_table() {
    let reports: Vec<Report> = shipped()
        .iter()
        .flat_map(|s| both_ways(s, &beside_ticks))
        .collect();
    let arguments = "--ticks --transfers 1 --no-singles ";
    compare(&reports, include_str!("ticks.txt"), arguments, "ticks.txt");
}

#[test]
fn one_seed_gives_one_result_and_another_seed_another() {
    let path = folder().join("lossy-both.toml");
    let scenario = Scenario::load(&path, &read).unwrap();
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

fn compare(reports: &[Report], expected: &str, arguments: &str, file: &str) {
    let table = Table(reports).to_string();
    let first = table
        .lines()
        .zip(expected.lines())
        .find(|(new, old)| new != old);
    assert!(
        table == expected,
        "{file}: the first line that differs is\n{first:?}\nIf that is meant, commit what this gives:\n\
         cargo run --release -p hawser-sim -- run scenarios/*.toml --direction both \
         --seconds {SECONDS} {arguments}> crates/hawser-sim/tests/{file}"
    );
}

type MakeOptions = dyn Fn(&Scenario, Direction) -> Options;

fn both_ways(scenario: &Scenario, options: &MakeOptions) -> Vec<Report> {
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
        seed: scenario.seed,
        payload: Some(payload),
        transfers: 2,
        singles: Singles::Undisturbed,
        ticks: false,
        observer: None,
        bond: BondConfig::default(),
    }
}

/// In the order in which a shell names them.
fn shipped() -> Vec<Scenario> {
    let entries = std::fs::read_dir(folder()).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "toml"));
    paths.sort();
    assert!(!paths.is_empty());
    let load = |path: &PathBuf| Scenario::load(path, &read).unwrap();
    paths.iter().map(load).collect()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

fn read(path: &Path) -> std::io::Result<String> {
    std::fs::read_to_string(path)
}
