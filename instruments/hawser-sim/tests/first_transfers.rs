//! Smoothness of the first transfer of a session.

use std::path::Path;
use std::time::Duration;

use hawser_scenario::{Direction, Scenario};
use hawser_session::TransportChoice;
use hawser_sim::bond::BondConfig;
use hawser_sim::bulk::{self, Bulk};
use hawser_sim::experiment::{self, Options};

/// Two links of 633 kbit/s with queues of 300 ms. The first windows of the association's paths
/// overflowed them: what was lost was repaired behind all the rest, and the reader had nothing for
/// 0.37 s.
#[test]
fn the_first_transfer_over_slow_links_does_not_stand_still() {
    for transport in [TransportChoice::Sctp, TransportChoice::Auto] {
        for direction in [Direction::Put, Direction::Get] {
            let gap = longest_gap("adsl-adsl", transport, direction);
            let most = Duration::from_millis(150);
            assert!(gap < most, "{transport:?} {direction:?}: {gap:?}");
        }
    }
}

/// The longest time without anything new at the reader, in a first transfer of 4 s.
fn longest_gap(name: &str, transport: TransportChoice, direction: Direction) -> Duration {
    let scenario = load(name);
    let config = BondConfig {
        transport,
        ..BondConfig::default()
    };
    let options = Options::new(scenario.seed, config);
    let mut bond = experiment::ready_bond(&scenario, &options);
    let bytes = scenario.total_rate(direction) * Duration::from_secs(4);
    let bulk = Bulk::new(direction, bytes, Duration::from_secs(60));
    let outcome = bulk::run(&mut bond, &bulk);
    assert!(outcome.took.is_some(), "it never ends");
    outcome.arrivals.gap(Duration::ZERO)
}

fn load(name: &str) -> Scenario {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let path = folder.join(format!("{name}.toml"));
    let read = |path: &Path| std::fs::read_to_string(path);
    Scenario::load(&path, &read).unwrap()
}
