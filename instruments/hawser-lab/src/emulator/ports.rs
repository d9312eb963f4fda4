//! A translator's table of connections and their ports.

use std::collections::BTreeMap;
use std::time::Duration;

use hawser_types::Instant;

use super::packet;
use super::rewrite::adjust;
use crate::scenario::Direction;

/// Connections of the client, and the ports that they have outside.
#[derive(Debug, Default)]
pub(super) struct Ports {
    by_inside: BTreeMap<Key, Mapping>,
    by_outside: BTreeMap<Key, u16>,
    given: u16,
}

/// Protocol, the client's port as it is seen on this side, and the server's port.
type Key = (u8, u16, u16);

#[derive(Clone, Copy, Debug)]
struct Mapping {
    outside: u16,
    last: Instant,
}

/// A packet's protocol and ports.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    key: Key,
    /// Place of the transport's header in the packet.
    at: usize,
    is_tcp_within: bool,
}

impl Ports {
    pub(super) fn forget_all(&mut self) {
        self.by_inside.clear();
        self.by_outside.clear();
    }

    /// Returns the port outside of a packet from inside; `None` if it is of no known connection
    /// and may not begin one.
    pub(super) fn outwards(
        &mut self,
        now: Instant,
        forget: Duration,
        flow: Flow,
        may_begin: bool,
    ) -> Option<u16> {
        if let Some(known) = self.by_inside.get_mut(&flow.key)
            && now.since(known.last) <= forget
        {
            known.last = now;
            return Some(known.outside);
        }
        let (protocol, inside, server) = flow.key;
        if let Some(old) = self.by_inside.remove(&flow.key) {
            self.by_outside.remove(&(protocol, old.outside, server));
        }
        if !may_begin {
            return None;
        }
        // Long before a port comes again, what knew it is over.
        let outside = FIRST_PORT + self.given;
        self.given = (self.given + 1) % PORTS;
        self.by_inside
            .insert(flow.key, Mapping { outside, last: now });
        self.by_outside.insert((protocol, outside, server), inside);
        Some(outside)
    }

    /// Returns the port inside of a packet from outside; `None` if it is of no known connection.
    pub(super) fn inwards(&mut self, now: Instant, forget: Duration, flow: Flow) -> Option<u16> {
        let (protocol, _, server) = flow.key;
        let inside = *self.by_outside.get(&flow.key)?;
        let known = self.by_inside.get_mut(&(protocol, inside, server))?;
        if now.since(known.last) > forget {
            return None;
        }
        known.last = now;
        Some(inside)
    }
}

impl Flow {
    /// Reads the flow of an IPv4 packet; `None` for one without ports.
    pub(super) fn of(packet: &[u8], direction: Direction) -> Option<Self> {
        let (protocol, at) = packet::transport(packet)?;
        let ports = packet.get(at..at + 4)?;
        let source = u16::from_be_bytes([ports[0], ports[1]]);
        let destination = u16::from_be_bytes([ports[2], ports[3]]);
        let (client, server) = match direction {
            Direction::Put => (source, destination),
            Direction::Get => (destination, source),
        };
        if !matches!(protocol, packet::TCP | packet::UDP) {
            return None;
        }
        let flags = packet.get(at + 13).copied().unwrap_or(0);
        Some(Self {
            key: (protocol, client, server),
            at,
            is_tcp_within: protocol == packet::TCP && flags & SYN == 0,
        })
    }

    /// True for a TCP segment that does not begin a connection.
    pub(super) fn is_tcp_within(&self) -> bool {
        self.is_tcp_within
    }

    /// Puts `port` in place of the client's, and corrects the checksum.
    pub(super) fn rewrite(&self, packet: &mut [u8], direction: Direction, port: u16) {
        let (protocol, client, _) = self.key;
        let (field, checksum) = (
            self.at + if direction == Direction::Put { 0 } else { 2 },
            self.at + if protocol == packet::TCP { 16 } else { 6 },
        );
        // UDP without a checksum has none to correct.
        if packet.get(checksum..checksum + 2) != Some(&[0, 0]) || protocol == packet::TCP {
            adjust(packet, checksum, &client.to_be_bytes(), &port.to_be_bytes());
        }
        if let Some(bytes) = packet.get_mut(field..field + 2) {
            bytes.copy_from_slice(&port.to_be_bytes());
        }
    }
}

const SYN: u8 = 2;
const FIRST_PORT: u16 = 20_000;
const PORTS: u16 = 10_000;
