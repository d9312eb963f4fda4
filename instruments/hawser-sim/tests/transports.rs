//! How close `auto` gets to the better transport on the shipped scenarios, as a table.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hawser_scenario::promise::OF_BEST;
use hawser_scenario::{Direction, Scenario};
use hawser_sim::bond::BondConfig;
use hawser_sim::experiment::Options;
use hawser_sim::table::Transports;
use hawser_sim::transports::{self, Goodputs, TransportReport};

/// Transfers in which `auto` stays below 0.98 of the better transport. This number may only fall.
const BELOW: usize = 12;

#[test]
fn what_auto_reaches_of_the_better_transport_gives_the_committed_table() {
    let reports: Vec<TransportReport> = shipped().iter().flat_map(both_ways).collect();
    let all = reports.iter().flat_map(|report| &report.transfers);
    let is_below = |it: &&Goodputs| it.of_better().is_some_and(|part| part < OF_BEST);
    let below = all.filter(is_below).count();
    assert!(below <= BELOW, "{below} transfers are below");
    assert!(
        Transports(&reports).to_string() == include_str!("transports.txt"),
        "if that is meant, commit what this gives:\n\
         cargo run --release -p hawser-sim -- transports scenarios/*.toml \
         > instruments/hawser-sim/tests/transports.txt"
    );
}

fn both_ways(scenario: &Scenario) -> [TransportReport; 2] {
    [Direction::Put, Direction::Get].map(|direction| {
        let options = Options {
            payload: Some(scenario.total_rate(direction) * Duration::from_secs(2)),
            transfers: 2,
            ..Options::new(scenario.seed, BondConfig::default())
        };
        transports::run(scenario, direction, &options)
    })
}

/// In the order in which a shell names them.
fn shipped() -> Vec<Scenario> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let entries = std::fs::read_dir(folder).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "toml"));
    paths.sort();
    let read = |path: &Path| std::fs::read_to_string(path);
    let load = |path: &PathBuf| Scenario::load(path, &read).unwrap();
    paths.iter().map(load).collect()
}
