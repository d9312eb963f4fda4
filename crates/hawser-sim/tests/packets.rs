//! Packet mode over modelled links.

use std::time::Duration;

use hawser_scenario::{Congestion, Direction, Link, Scenario};
use hawser_sched::packet::PacketPolicy;
use hawser_sim::packets::{Run, chaos};

#[test]
fn whatever_links_do_nothing_is_doubled_stuck_or_out_of_order_beyond_the_rule() {
    for seed in 0..300 {
        assert_eq!(chaos::play(seed), Ok(()), "seed {seed}");
    }
}

#[test]
fn a_flow_near_the_sum_of_two_links_arrives_whole_and_in_order() {
    let report = run().udp(&links("eq-50"), 0.95).unwrap();
    assert_eq!((report.flow.lost(), report.flow.disordered), (0, 0));
    assert!(report.flow.delay_p99 < 20_000, "{report:?}");
}

#[test]
fn a_call_beside_bulk_stays_near_the_quickest_links_delay() {
    let report = run().call(&links("wifi-lte")).unwrap();
    assert_eq!(report.call.sent, report.call.arrived);
    assert!(report.call.delay_p99 < 20_000, "{report:?}");
}

#[test]
fn what_a_link_loses_costs_a_connection_inside_nothing() {
    let report = run()
        .tcp(&links("three-unlike"), Congestion::Cubic)
        .unwrap();
    // One packet in 4,000 is lost, with which CUBIC can't have half of it (RFC 9438 §5.2).
    assert!(report.goodput * 100 >= report.allowed * 85, "{report:?}");
    // The tunnel's queue drops packets on purpose.
    assert!(report.retransmissions <= report.dropped, "{report:?}");
}

fn run() -> Run {
    Run {
        policy: PacketPolicy::Auto,
        direction: Direction::Get,
        span: Duration::from_secs(6),
        warm_up: Duration::from_secs(2),
        seed: 1,
    }
}

fn links(name: &str) -> Vec<Link> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios");
    let path = format!("{folder}/{name}.toml");
    let read = |file: &std::path::Path| std::fs::read_to_string(file);
    let scenario = Scenario::load(path.as_ref(), &read).unwrap();
    scenario.links
}
