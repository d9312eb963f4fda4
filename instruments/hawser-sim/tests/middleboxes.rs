//! Middleboxes that interfere: options removed, connections forgotten.

use std::time::Duration;

use hawser_scenario::{Congestion, Direction, Scenario, no_files};
use hawser_sim::bond::BondConfig;
use hawser_sim::bulk::{self, Bulk};
use hawser_sim::experiment::{self, Options, Singles};
use hawser_sim::network::{End, Network};
use hawser_sim::plain;
use hawser_sim::tcp::TcpConfig;
use hawser_types::ByteCount;

#[test]
fn without_selective_acknowledgement_losses_in_a_row_are_repaired_one_a_round_trip() {
    let lossy = "loss = { mean = \"0.3%\", burst = 8 }\n";
    let with = goodput(&scenario(lossy));
    let without = goodput(&scenario(&format!("{lossy}strip = [\"sack\"]\n")));
    assert!(without < with, "{without} {with}");
    // Eight round trips rather than one, and not eight time-outs.
    assert!(without * 4 > with, "{without} {with}");
}

#[test]
fn without_time_stamps_headers_are_shorter() {
    let with = goodput(&scenario(""));
    let without = goodput(&scenario("strip = [\"timestamps\"]\n"));
    assert!(
        (1003..1012).contains(&(without * 1000 / with)),
        "{without} {with}"
    );
}

#[test]
fn a_session_works_where_everything_is_stripped() {
    let links = scenario("loss = \"0.1%\"\nstrip = [\"unknown\", \"sack\", \"timestamps\"]\n");
    let report = experiment::run(&links, Direction::Put, &options());
    let of_best = report.transfers.iter().map(|transfer| transfer.of_best);
    assert!(
        of_best.min().flatten().is_some_and(|least| least > 1800),
        "{report:?}"
    );
}

/// A connection that was silent for longer than the translation remembers.
#[test]
fn a_forgotten_connection_is_answered_by_a_reset_or_by_nothing() {
    let closed = |nat: &str| {
        let link = &scenario(nat).links[0];
        let mut network = Network::new(std::slice::from_ref(link), None, 1);
        let client = network.connect(0, TcpConfig::new(Congestion::Cubic));
        let server = End {
            client: false,
            ..client
        };
        let pass = |network: &mut Network, millis| {
            let until = network.now() + Duration::from_millis(millis);
            while network.step(until).is_some() {}
        };
        pass(&mut network, 900);
        network.write(client, 100);
        pass(&mut network, 900);
        // It was in use until now.
        assert_eq!(network.arrived(server), 100);
        pass(&mut network, 2000);
        network.write(server, 100);
        pass(&mut network, 500);
        assert_eq!(network.arrived(client), 0);
        network.write(client, 100);
        pass(&mut network, 5000);
        assert_eq!(network.arrived(server), 100);
        network.is_closed(client)
    };
    assert!(closed("nat = { forget = \"1s\", then = \"reset\" }\n"));
    assert!(!closed("nat = { forget = \"1s\", then = \"silence\" }\n"));
}

#[test]
fn a_session_outlives_translations_that_forget_all_its_channels() {
    for then in ["reset", "silence"] {
        let nat = format!("nat = {{ forget = \"2s\", then = \"{then}\" }}\n");
        let mut bond = experiment::ready_bond(&scenario(&nat), &options());
        for direction in [Direction::Put, Direction::Get, Direction::Put] {
            bond.rest(Duration::from_secs(20));
            let limit = Duration::from_secs(60);
            let request = Bulk::new(direction, ByteCount::new(1000), limit);
            let outcome = bulk::run(&mut bond, &request);
            assert!(outcome.took.is_some(), "{then} {direction:?}");
        }
    }
}

/// Two links alike.
fn scenario(more: &str) -> Scenario {
    let link = "[[link]]\nrate = \"20Mbit/s\"\ndelay = \"10ms\"\nqueue = \"60ms\"\n";
    let text = format!("payload = \"10MB\"\n{link}{more}{link}{more}");
    Scenario::parse("test", &text, &no_files).unwrap()
}

/// Of one connection over the first link, in kbit/s.
fn goodput(scenario: &Scenario) -> u128 {
    let transfer = plain::Transfer {
        congestion: Congestion::Cubic,
        direction: Direction::Put,
        bytes: scenario.payload,
        seed: 1,
        events: Vec::new(),
        limit: Duration::from_secs(60),
    };
    let took = plain::run(&scenario.links[0], &transfer).unwrap();
    u128::from(scenario.payload.as_u64()) * 8 * 1_000_000 / took.as_nanos()
}

fn options() -> Options {
    Options {
        transfers: 2,
        singles: Singles::Undisturbed,
        ..Options::new(1, BondConfig::default())
    }
}
