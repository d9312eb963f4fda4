//! Links that silently drop large packets, from the first packet on or later.

use std::path::Path;
use std::time::Duration;

use hawser_scenario::{Direction, Scenario, no_files};
use hawser_session::TransportChoice;
use hawser_sim::bond::{Bond, BondConfig};
use hawser_sim::bulk::{self, Bulk};
use hawser_sim::experiment::{self, Options};
use hawser_types::ByteCount;

#[test]
fn where_one_link_drops_large_packets_both_carry_nine_tenths() {
    carries_nine_tenths("mtu-one", [TransportChoice::Tcp, TransportChoice::Auto]);
}

#[test]
fn where_every_link_drops_large_packets_all_carry_nine_tenths() {
    carries_nine_tenths("mtu-both", [TransportChoice::Tcp, TransportChoice::Auto]);
}

#[test]
fn an_association_finds_the_size_by_itself() {
    carries_nine_tenths("mtu-both", [TransportChoice::Sctp]);
}

/// Either way, the first transfer of a session and a later one have 3 s at the beginning of which
/// nothing is asked, and then 0.9 of what links of 8 Mbit/s carry in packets of 1260 bytes.
fn carries_nine_tenths(name: &str, transports: impl IntoIterator<Item = TransportChoice>) {
    let scenario = read(name);
    for transport in transports {
        for direction in [Direction::Put, Direction::Get] {
            let mut bond = bond(&scenario, transport);
            for transfer in 0..2 {
                let took = took(&mut bond, direction, PAYLOAD);
                let rest = took.saturating_sub(Duration::from_secs(3));
                let bits = u128::from(PAYLOAD.as_u64()) * 8;
                let rate = bits / rest.as_micros();
                assert!(
                    rate * 1260 * 10 >= 16 * 1208 * 9,
                    "{name} {transport:?} {direction:?} {transfer}: {took:?}"
                );
            }
        }
    }
}

/// Both links of 8 Mbit/s lose packets above 1300 bytes from the middle of a transfer on. Whatever
/// carries it, the reader waits for three seconds at most.
#[test]
fn where_large_packets_begin_to_vanish_everywhere_a_transfer_goes_on_soon() {
    for direction in [Direction::Put, Direction::Get] {
        for transport in [
            TransportChoice::Tcp,
            TransportChoice::Sctp,
            TransportChoice::Auto,
        ] {
            let mut scenario = read("mtu-both");
            for line in scenario
                .links
                .iter_mut()
                .flat_map(|link| [&mut link.up, &mut link.down])
            {
                line.largest_packet = None;
            }
            let mut bond = bond(&scenario, transport);
            // The transports are in use, and have carried much.
            took(&mut bond, direction, PAYLOAD);
            let narrows = bond.now() + Duration::from_secs(3);
            (0..2).for_each(|link| bond.narrow(link, narrows, ByteCount::new(1300)));
            let request = Bulk {
                asks_at_rest: true,
                ..Bulk::new(direction, PAYLOAD, Duration::from_secs(60))
            };
            let outcome = bulk::run(&mut bond, &request);
            assert!(outcome.took.is_some(), "{transport:?} {direction:?}");
            let gap = outcome.arrivals.gap(Duration::from_secs(3));
            assert!(
                gap < Duration::from_secs(3),
                "{transport:?} {direction:?}: {gap:?}"
            );
        }
    }
}

fn took(bond: &mut Bond, direction: Direction, bytes: ByteCount) -> Duration {
    let request = Bulk::new(direction, bytes, Duration::from_secs(60));
    let outcome = bulk::run(bond, &request);
    outcome.took.unwrap_or(Duration::from_secs(60))
}

fn bond(scenario: &Scenario, transport: TransportChoice) -> Bond {
    let config = BondConfig {
        transport,
        ..BondConfig::default()
    };
    experiment::ready_bond(scenario, &Options::new(1, config))
}

fn read(name: &str) -> Scenario {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/mtu");
    let text = std::fs::read_to_string(folder.join(format!("{name}.toml"))).unwrap();
    Scenario::parse(name, &text, &no_files).unwrap()
}

const PAYLOAD: ByteCount = ByteCount::new(12_000_000);
