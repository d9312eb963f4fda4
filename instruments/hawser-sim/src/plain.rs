//! One transfer over one TCP connection on one link: the reference for Hawser.

use std::time::Duration;

use hawser_scenario::{Action, Congestion, Direction, Link};
use hawser_types::ByteCount;

use crate::network::{End, Happening, Network};
use crate::tcp::TcpConfig;

/// A transfer over plain TCP.
#[derive(Clone, Debug)]
pub struct Transfer {
    /// The connection's congestion control, at both ends.
    pub congestion: Congestion,
    /// Which way the payload goes.
    pub direction: Direction,
    /// The payload.
    pub bytes: ByteCount,
    /// Draws loss, jitter and service.
    pub seed: u64,
    /// What happens to the link meanwhile, with the time since the SYN.
    pub events: Vec<(Duration, Action)>,
    /// When to give up.
    pub limit: Duration,
}

/// How long the transfer takes from the SYN to the moment at which the client knows that
/// everything has arrived; `None` when that is later than the limit.
pub fn run(link: &Link, transfer: &Transfer) -> Option<Duration> {
    let mut network = Network::new(std::slice::from_ref(link), None, transfer.seed);
    let began = network.now();
    let client = network.connect(0, TcpConfig::new(transfer.congestion));
    let server = End {
        client: false,
        ..client
    };
    let (from, to) = match transfer.direction {
        Direction::Put => (client, server),
        Direction::Get => (server, client),
    };
    let bytes = transfer.bytes.as_u64();
    for (index, (after, _)) in transfer.events.iter().enumerate() {
        network.set_alarm(began + *after, index as u64);
    }
    let mut asked = false;
    while let Some(happening) = network.step(began + transfer.limit) {
        if let Happening::Alarm(index) = happening {
            let action = transfer
                .events
                .get(index as usize)
                .map(|(_, action)| *action);
            act(&mut network, client, action);
        }
        if !network.is_established(client) {
            continue;
        }
        if from == server && !asked {
            asked = network.write(client, REQUEST) == REQUEST;
        }
        let may_send = from == client || network.arrived(server) == REQUEST;
        if may_send && network.written(from) < bytes {
            network.write(from, bytes - network.written(from));
        }
        if network.arrived(to) == bytes {
            if to == client {
                return Some(network.now().since(began));
            }
            if network.written(to) == 0 {
                network.write(to, VERDICT);
            }
            if network.arrived(client) == VERDICT {
                return Some(network.now().since(began));
            }
        }
    }
    None
}

/// A connection outlives the loss of its carrier, and not that of its address.
fn act(network: &mut Network, client: End, action: Option<Action>) {
    match action {
        Some(Action::BlackHole | Action::CarrierDown) => network.set_black_hole(0, true),
        Some(Action::Pass | Action::CarrierUp) => network.set_black_hole(0, false),
        Some(Action::AddressChange) => network.orphan(client),
        None => {}
    }
}

const REQUEST: u64 = 16;
const VERDICT: u64 = 1;
