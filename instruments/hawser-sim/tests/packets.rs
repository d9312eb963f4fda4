//! Packet mode over modelled links.

use std::time::Duration;

use hawser_scenario::{Congestion, Direction, Link, Scenario};
use hawser_sched::packet::PacketPolicy;
use hawser_sim::packets::{Protocol, Run, chaos};
use hawser_types::Rate;

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
    // Connections and links find their rates in the first seconds.
    let delays = [1, 2, 3].map(|seed| {
        let run = Run {
            span: Duration::from_secs(10),
            warm_up: Duration::from_secs(5),
            seed,
            ..run()
        };
        let report = run.call(&links("wifi-lte")).unwrap();
        assert_eq!(report.call.sent, report.call.arrived);
        report.call.delay_p99
    });
    // One probe for more rate at a bad moment is one in a hundred packets.
    let within = delays.iter().filter(|delay| **delay < 20_000).count();
    assert!(within >= 2, "{delays:?}");
}

#[test]
fn what_a_link_loses_costs_a_connection_inside_nothing() {
    let report = run()
        .connection(&links("three-unlike"), Protocol::Tcp, Congestion::Cubic)
        .unwrap();
    // One packet in 4,000 is lost, with which CUBIC can't have half of it (RFC 9438 §5.2).
    assert!(report.goodput * 100 >= report.allowed * 85, "{report:?}");
    // The tunnel's queue drops packets on purpose.
    assert!(report.retransmissions <= report.dropped, "{report:?}");
}

#[test]
fn a_connection_inside_is_as_fast_as_over_its_best_link_however_unlike_they_are() {
    for (name, congestion) in [
        ("het-rtt", Congestion::Bbr),
        ("het-bw", Congestion::Cubic),
        ("het-bw", Congestion::Bbr),
    ] {
        for protocol in [Protocol::Tcp, Protocol::Quic] {
            let links = links(name);
            let run = Run {
                warm_up: Duration::ZERO,
                ..run()
            };
            let report = |links: &[Link]| run.connection(links, protocol, congestion).unwrap();
            let alone = links.iter().map(|link| report(std::slice::from_ref(link)));
            let best = alone.map(|it| it.goodput).max().unwrap();
            let all = report(&links);
            assert!(all.goodput * 100 >= best * 90, "{best} alone, {all:?}");
        }
    }
}

#[test]
fn an_announced_handover_loses_nothing_and_delays_stay_near_the_quickest_link() {
    // The faster flow needs most of the slower link, which has carried nothing before.
    let rates = [rate(), Rate::from_bits_per_second(2_500_000)];
    for name in ["mms/e1", "mms/e1-away"] {
        let scenario = scenario(name);
        for report in rates.map(|rate| run().roam(&scenario, true, rate).unwrap()) {
            for own in &report.phases {
                let delays = own
                    .phase
                    .links
                    .iter()
                    .map(|it| scenario.links[*it].down.delay);
                let quickest = delays.min().unwrap().as_micros() as u64;
                assert_eq!(own.lost, 0, "{report:?}");
                assert!(own.delay_p50 < quickest + 10_000, "{report:?}");
            }
        }
    }
}

#[test]
fn a_link_in_use_that_goes_unannounced_costs_a_flow_little_time() {
    let scenario = scenario("mms/e1-away");
    let report = run().roam(&scenario, false, rate()).unwrap();
    // A round trip of the link that goes, and 150 ms.
    assert!(report.phases[1].gap < 54_000 + 150_000, "{report:?}");
}

/// Less than what each of the links that carry it has.
fn rate() -> Rate {
    Rate::from_bits_per_second(1_500_000)
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
    scenario(name).links
}

fn scenario(name: &str) -> Scenario {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios");
    let path = format!("{folder}/{name}.toml");
    let read = |file: &std::path::Path| std::fs::read_to_string(file);
    Scenario::load(path.as_ref(), &read).unwrap()
}
