//! A translation of addresses that forgets connections. It stands between a link and the server.

use hawser_scenario::Forgotten;
use hawser_types::Instant;

use super::{Cargo, End, Network};
use crate::tcp::Packet;

/// What a translation knows of a connection: when its last packet came, from either side.
///
/// Where a link has no translation, it stays as it was.
#[derive(Clone, Copy, Debug)]
pub(super) enum Mapping {
    Known(Instant),
    /// It was silent for too long. What knows it outside is gone for good: a packet from inside
    /// would leave under another port.
    Gone,
}

impl Mapping {
    pub(super) fn new(now: Instant) -> Self {
        Self::Known(now)
    }
}

impl Network {
    /// A packet from the client comes to the translation. Whether it goes on.
    pub(super) fn leaves(&mut self, to: End, packet: &Packet) -> bool {
        let link = self.connections[to.connection].link;
        if self.is_mapped(to) || packet.is_greeting() {
            self.connections[to.connection].mapping = Mapping::Known(self.now);
            return true;
        }
        let then = self.links[link].nat.map(|nat| nat.then);
        if then == Some(Forgotten::Reset) && !packet.is_reset() {
            // The server knows no such connection.
            let reset = Packet::reset(self.now);
            self.put(link, 1, Cargo::Segment(to.other(), reset));
        }
        false
    }

    /// A packet from the server comes to the translation. Whether it goes on.
    pub(super) fn enters(&mut self, from: End) -> bool {
        let mapped = self.is_mapped(from);
        if mapped {
            self.connections[from.connection].mapping = Mapping::Known(self.now);
        } else {
            self.counters.lost += 1;
        }
        mapped
    }

    /// Whether the translation still knows a connection; what is too old is forgotten.
    fn is_mapped(&mut self, end: End) -> bool {
        let now = self.now;
        let connection = &mut self.connections[end.connection];
        let Some(nat) = self.links[connection.link].nat else {
            return true;
        };
        if let Mapping::Known(last) = connection.mapping
            && now.since(last) > nat.forget
        {
            connection.mapping = Mapping::Gone;
        }
        matches!(connection.mapping, Mapping::Known(_))
    }
}
