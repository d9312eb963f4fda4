//! Plain TCP of others on the links of a bond, always with something to send.

use hawser_scenario::{Congestion, Direction};
use hawser_types::{ByteCount, Instant};

use super::Bond;
use crate::arrivals::Arrivals;
use crate::network::End;
use crate::tcp::TcpConfig;

/// One such connection.
#[derive(Debug)]
pub(super) struct Rival {
    from: End,
    began: Instant,
    arrivals: Arrivals,
}

impl Bond {
    /// Begins a connection of somebody else over a link, which sends for ever.
    pub fn add_rival(&mut self, link: usize, congestion: Congestion, direction: Direction) {
        let client = self.network.connect(link, TcpConfig::new(congestion));
        let rival = Rival {
            from: End {
                client: direction == Direction::Put,
                ..client
            },
            began: self.network.now(),
            arrivals: Arrivals::default(),
        };
        self.rivals.insert(client.connection, rival);
    }

    /// What has come over each of the others' connections, in the order in which they began.
    pub fn rivals(&self) -> impl Iterator<Item = &Arrivals> {
        self.rivals.values().map(|rival| &rival.arrivals)
    }

    pub(super) fn on_rival(&mut self, end: End) {
        let Some(rival) = self.rivals.get_mut(&end.connection) else {
            return;
        };
        if end == rival.from {
            self.network.write(end, CHUNK);
            return;
        }
        let arrived = ByteCount::new(self.network.arrived(end));
        let fresh = arrived - rival.arrivals.total();
        if fresh > ByteCount::ZERO {
            let age = self.network.now().since(rival.began);
            rival.arrivals.note(age, fresh);
        }
    }
}

/// More than an acknowledgement makes room for.
const CHUNK: u64 = 16 << 20;
