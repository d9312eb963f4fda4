//! Results of associations, as committed tables of whole numbers.

use std::fmt::Display;
use std::path::Path;
use std::time::Duration;

use hawser_channels::association::below_seal;
use hawser_scenario::{Direction, Scenario};
use hawser_sctp::AssociationConfig;
use hawser_sim::association::compare::{self, Comparison};
use hawser_sim::association::paper::{self, Setup, Table, Variant};
use hawser_sim::bond::BondConfig;
use hawser_sim::experiment::{Options, Singles};
use hawser_sim::table::Comparisons;

/// Links that fall silent, are of unlike delay, change their rate, lose packets, and come and go.
const SCENARIOS: [&str; 6] = [
    "black-hole-20-20",
    "het-rtt",
    "cellular",
    "lossy-both",
    "sat-dsl",
    "on-off",
];

/// Percent of the links' sum that Hawser's choices use in each row of the paper's tables, at least.
const LEAST: f64 = 95.0;

#[test]
fn the_papers_tables_are_as_committed_and_hawser_uses_nearly_all_of_each_row() {
    let setup = Setup::new(Duration::from_secs(2), 1);
    let reports = paper::run_all(&Variant::ALL, &setup).unwrap();
    let of_hawser = reports.iter().filter(|it| it.variant == Variant::Hawser);
    for report in of_hawser {
        assert!(report.used >= LEAST, "{report:?}");
    }
    let arguments = "paper --span 2s";
    let expected = include_str!("association_paper.txt");
    compare(
        &Table(&reports),
        expected,
        arguments,
        "association_paper.txt",
    );
}

#[test]
fn scenarios_over_associations_give_the_committed_table() {
    let mut reports = Vec::new();
    for name in SCENARIOS {
        let scenario = load(name);
        for direction in [Direction::Put, Direction::Get] {
            reports.push(run(&scenario, direction));
        }
    }
    let files = SCENARIOS.map(|name| format!("scenarios/{name}.toml"));
    let arguments = format!("run {} --direction both --no-singles", files.join(" "));
    let expected = include_str!("association_run.txt");
    compare(
        &Comparisons(&reports),
        expected,
        &arguments,
        "association_run.txt",
    );
}

fn run(scenario: &Scenario, direction: Direction) -> Comparison {
    let options = Options {
        transfers: 2,
        singles: Singles::None,
        ..Options::new(scenario.seed, BondConfig::default())
    };
    let config = below_seal(AssociationConfig::default());
    compare::run(scenario, direction, &config, &options).unwrap()
}

fn compare(table: &dyn Display, expected: &str, arguments: &str, file: &str) {
    let table = table.to_string();
    let mut lines = table.lines().zip(expected.lines());
    let first = lines.find(|(new, old)| new != old);
    assert!(
        table == expected,
        "{file}: the first line that differs is\n{first:?}\nIf that is meant, commit what this gives:\n\
         cargo run --release -p hawser-sim -- association {arguments} > instruments/hawser-sim/tests/{file}"
    );
}

fn load(name: &str) -> Scenario {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let path = folder.join(format!("{name}.toml"));
    Scenario::load(&path, &|file: &Path| std::fs::read_to_string(file)).unwrap()
}
