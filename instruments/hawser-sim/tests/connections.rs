//! The paper's workloads: a committed table, and the paper's statements about them.

use std::path::{Path, PathBuf};

use hawser_scenario::Point;
use hawser_scenario::figures::{Row, Table, Trial};
use hawser_sched::chunk::ChunkPolicy;
use hawser_sched::connection::ConnectionPolicy;
use hawser_sim::connections::{self, Method, Rates};

const VALUES: [&str; 3] = ["0.25Mbit/s", "4%", "0.5"];
const METHODS: [Method; 6] = [
    Method::Connections(ConnectionPolicy::OnlyOne),
    Method::Connections(ConnectionPolicy::RoundRobin),
    Method::Connections(ConnectionPolicy::WeightedRoundRobin),
    Method::Connections(ConnectionPolicy::MaxThroughput),
    Method::Connections(ConnectionPolicy::Auto),
    Method::Chunks(ChunkPolicy::WeightedRoundRobin),
];

#[test]
fn workloads_give_the_committed_table() {
    let mut reports = Vec::new();
    for path in files() {
        let mut points = points(&path);
        points.retain(|p| p.value.is_empty() || VALUES.contains(&p.value.as_str()));
        for point in points {
            reports.extend(METHODS.map(|method| run(&point, method, 2)));
        }
    }
    let table = Table(&reports).to_string();
    let methods = METHODS.map(|method| method.to_string()).join(",");
    assert!(
        table == include_str!("connections.txt"),
        "if that is meant, commit what this gives:\n\
         cargo run --release -p hawser-sim -- connections scenarios/connections/*.toml --seeds 2 \
         --values {} --only {methods} > instruments/hawser-sim/tests/connections.txt\n{table}",
        VALUES.join(",")
    );
}

/// DBAS Fig. 3 (a).
#[test]
fn rotation_hurts_beside_a_slow_link_and_demands_make_up_for_it() {
    let points = points(&folder().join("dbas-e1.toml"));
    let slowest = &points[0];
    assert_eq!(slowest.value, "0.25Mbit/s");
    let throughput = |policy| of(slowest, policy).mean(|trial| trial.throughput).mean;
    let only_one = throughput(ConnectionPolicy::OnlyOne);
    let rotated = throughput(ConnectionPolicy::RoundRobin);
    let weighted = throughput(ConnectionPolicy::WeightedRoundRobin);
    assert!(rotated < only_one / 2.0, "{rotated} {only_one}");
    assert!(weighted > rotated * 3.5, "{weighted} {rotated}");
    for point in points.iter().step_by(3) {
        let auto = of(point, ConnectionPolicy::Auto);
        let only_one = of(point, ConnectionPolicy::OnlyOne);
        assert_eq!(auto.mean(|trial| trial.unfinished as f64).mean, 0.0);
        let ahead = auto.ahead_of(&only_one);
        assert!(ahead.mean > ahead.within.unwrap(), "{}", point.value);
    }
}

/// DBAS Table I, the nominal mix.
#[test]
fn auto_reaches_what_one_link_with_the_sum_of_rates_would() {
    let points = points(&folder().join("dbas-e1.toml"));
    let nominal = points
        .iter()
        .filter(|p| ["1Mbit/s", "2Mbit/s"].contains(&p.value.as_str()));
    for point in nominal {
        let report = of(point, ConnectionPolicy::Auto);
        let mean = |figure: fn(&Trial) -> f64| report.mean(figure).mean;
        let share = mean(|trial| trial.throughput) / mean(|trial| trial.reachable);
        assert!(share > 0.95, "{} {share}", point.value);
    }
}

/// DBAS Fig. 6.
#[test]
fn one_long_connection_stays_on_its_link_and_chunks_use_both() {
    let [point] = &points(&folder().join("dbas-e4.toml"))[..] else {
        panic!("a sweep");
    };
    let auto = of(point, ConnectionPolicy::Auto)
        .mean(|trial| trial.throughput)
        .mean;
    let only_one = of(point, ConnectionPolicy::OnlyOne)
        .mean(|trial| trial.throughput)
        .mean;
    assert!(
        auto > only_one && auto < only_one * 1.25,
        "{auto} {only_one}"
    );
    let chunks = run(point, Method::Chunks(ChunkPolicy::WeightedRoundRobin), 2);
    let share = chunks.mean(|trial| trial.throughput / trial.optimal).mean;
    assert!(share > 0.91, "{share}");
}

#[test]
fn one_seed_gives_one_result_and_another_seed_another() {
    let point = &points(&folder().join("dbas-e2.toml"))[3];
    let method = Method::Connections(ConnectionPolicy::Auto);
    let run = |seed| connections::run(point, method, Rates::Learnt, seed..=seed).unwrap();
    assert_eq!(run(4), run(4));
    assert_ne!(run(4).trials[0].throughput, run(5).trials[0].throughput);
}

fn of(point: &Point, policy: ConnectionPolicy) -> Row {
    run(point, Method::Connections(policy), 3)
}

fn run(point: &Point, method: Method, seeds: u64) -> Row {
    connections::run(point, method, Rates::Learnt, 1..=seeds).unwrap()
}

fn points(path: &Path) -> Vec<Point> {
    Point::load(path, &|file| std::fs::read_to_string(file)).unwrap()
}

/// In the order in which a shell names them.
fn files() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder()).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/connections")
}
