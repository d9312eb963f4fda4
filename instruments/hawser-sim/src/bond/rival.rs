//! Plain TCP of other users on the links of a bond, with unlimited data.

use std::collections::BTreeMap;

use hawser_scenario::{Congestion, Direction};
use hawser_types::{ByteCount, Instant};

use crate::arrivals::Arrivals;
use crate::network::{End, Network};
use crate::tcp::TcpConfig;

/// The connections of others, by their number.
#[derive(Debug, Default)]
pub(super) struct Rivals(BTreeMap<usize, Rival>);

#[derive(Debug)]
struct Rival {
    from: End,
    began: Instant,
    arrivals: Arrivals,
}

impl Rivals {
    /// Begins a connection over a link, which sends for ever.
    pub(super) fn add(
        &mut self,
        network: &mut Network,
        link: usize,
        congestion: Congestion,
        direction: Direction,
    ) {
        let client = network.connect(link, TcpConfig::new(congestion));
        let rival = Rival {
            from: End {
                client: direction == Direction::Put,
                ..client
            },
            began: network.now(),
            arrivals: Arrivals::default(),
        };
        self.0.insert(client.connection, rival);
    }

    /// What has come over each, in the order in which they began.
    pub(super) fn arrivals(&self) -> impl Iterator<Item = &Arrivals> {
        self.0.values().map(|rival| &rival.arrivals)
    }

    /// A connection has moved; one that is no rival's does not matter.
    pub(super) fn on_end(&mut self, network: &mut Network, end: End) {
        let Some(rival) = self.0.get_mut(&end.connection) else {
            return;
        };
        if end == rival.from {
            network.write(end, CHUNK);
            return;
        }
        let arrived = ByteCount::new(network.arrived(end));
        let fresh = arrived - rival.arrivals.total();
        if fresh > ByteCount::ZERO {
            let age = network.now().since(rival.began);
            rival.arrivals.note(age, fresh);
        }
    }
}

/// More than an acknowledgement makes room for.
const CHUNK: u64 = 16 << 20;
