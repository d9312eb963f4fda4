//! Channels that only one side has.

use std::time::Duration;

use hawser_scenario::{Action, Scenario, no_files};
use hawser_session::Side;
use hawser_sim::bond::{Bond, BondConfig};
use hawser_types::ChannelId;

/// Whenever a link loses its carrier, the gateway soon has no channel that the client lacks: it
/// would place chunks there that are never read.
#[test]
fn a_join_that_its_link_interrupts_leaves_the_gateway_without_a_ghost() {
    for moment in (20..400).step_by(10) {
        let mut bond = Bond::new(&scenario(), 1, BondConfig::default());
        bond.rest(Duration::from_millis(moment));
        bond.act(1, Action::CarrierDown);
        bond.rest(Duration::from_millis(500));
        let (gateway, client) = (ids(&bond, Side::Gateway), ids(&bond, Side::Client));
        assert_eq!(gateway, client, "after {moment} ms");
    }
}

fn scenario() -> Scenario {
    let near = "[[link]]\nrate = \"20Mbit/s\"\ndelay = \"10ms\"\nqueue = \"60ms\"\n";
    let far = near.replace("10ms", "50ms");
    Scenario::parse(
        "test",
        &format!("payload = \"1MB\"\n{near}{far}"),
        &no_files,
    )
    .unwrap()
}

fn ids(bond: &Bond, side: Side) -> Vec<ChannelId> {
    let snapshot = bond.session(side).snapshot(bond.now(), 0);
    snapshot.channels.iter().map(|channel| channel.id).collect()
}
