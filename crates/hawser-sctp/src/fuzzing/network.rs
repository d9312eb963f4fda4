use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use bytes::Bytes;
use hawser_types::LinkIndex;

use crate::{Local, Route, Transmit};

/// Packets between two hosts, each with a few links behind address translators.
#[derive(Debug)]
pub(super) struct Network {
    flying: Vec<Packet>,
    /// Ports that each host's links have outside, by host and link.
    ports: [[u16; LINKS]; 2],
    /// Latest packet that each host was sent, for forgers.
    latest: [Bytes; 2],
}

/// A packet in flight, as its receiver sees it.
#[derive(Clone, Debug)]
pub(super) struct Packet {
    pub(super) to: usize,
    pub(super) route: Route,
    pub(super) datagram: Bytes,
}

impl Network {
    pub(super) fn new() -> Self {
        Self {
            flying: Vec::new(),
            ports: [[PORT; LINKS]; 2],
            latest: Default::default(),
        }
    }

    /// Sends a host's packet, unless too many are in flight or no host has its address.
    pub(super) fn send(&mut self, from: usize, transmit: Transmit) {
        let Route { local, remote } = transmit.route;
        let link = local.link.value() as usize;
        let to = 1 - from;
        let is_at = |link: &usize| self::local(to, *link).address == remote.ip();
        let Some(at) = (0..LINKS).find(is_at) else {
            return;
        };
        self.latest[to] = transmit.datagram.clone();
        if self.ports[to][at] != remote.port() || self.flying.len() >= MAX_FLYING {
            return;
        }
        self.flying.push(Packet {
            to,
            route: Route {
                local: self::local(to, at),
                remote: SocketAddr::new(local.address, self.ports[from][link % LINKS]),
            },
            datagram: transmit.datagram,
        });
    }

    /// Takes a packet out, in any order.
    pub(super) fn take(&mut self, which: usize) -> Option<Packet> {
        let place = which % self.flying.len().max(1);
        (place < self.flying.len()).then(|| self.flying.remove(place))
    }

    /// Sends a packet a second time.
    pub(super) fn repeat(&mut self, which: usize) {
        let place = which % self.flying.len().max(1);
        if let Some(packet) = self.flying.get(place).cloned()
            && self.flying.len() < MAX_FLYING
        {
            self.flying.push(packet);
        }
    }

    /// Returns a packet in flight, to alter it.
    pub(super) fn packet(&mut self, which: usize) -> Option<&mut Packet> {
        let place = which % self.flying.len().max(1);
        self.flying.get_mut(place)
    }

    /// Returns the latest packet that a host was sent.
    pub(super) fn latest(&self, to: usize) -> &Bytes {
        &self.latest[to]
    }

    /// A translator gives a host's link another port.
    pub(super) fn move_port(&mut self, host: usize, link: usize) {
        let port = &mut self.ports[host][link % LINKS];
        *port = port.wrapping_add(1).max(1024);
    }
}

/// Returns a host's address on one of its links.
pub(super) fn local(host: usize, link: usize) -> Local {
    let link = link % LINKS;
    Local {
        link: LinkIndex::new(link as u32),
        address: IpAddr::V4(Ipv4Addr::new(198, 51, 100, (host * 16 + link + 1) as u8)),
    }
}

/// Returns where a host is reached on one of its links, as long as no port has moved.
pub(super) fn remote(host: usize, link: usize) -> SocketAddr {
    SocketAddr::new(local(host, link).address, PORT)
}

/// Links of each host.
pub(super) const LINKS: usize = 3;
const PORT: u16 = 9899;
const MAX_FLYING: usize = 2048;
