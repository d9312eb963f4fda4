//! Addresses of either end that are added or removed while the association is established.

use std::net::{IpAddr, SocketAddr};

use hawser_types::{Instant, PathId};
use hawser_wire::sctp::{Chunk, Parameter};

use super::Association;
use crate::handshake::MAX_PEER_ADDRESSES;
use crate::path::{AddressRequest, Asconf, Path};
use crate::{Checksum, Event, Local, Route};

impl Association {
    /// Adds a local address. The peer is told and adds it only where packets are sealed below;
    /// otherwise the peer may not support this.
    pub fn add_local(&mut self, now: Instant, local: Local) {
        if self.locals.contains(&local) {
            return;
        }
        self.locals.push(local);
        self.setup.locals_changed(&self.locals);
        for remote in self.peer_addresses() {
            self.add_path(now, Route { local, remote }, false);
        }
        self.request(AddressRequest::Add(local.address));
    }

    /// Removes a local address. Data in flight from it is sent again over other paths.
    pub fn remove_local(&mut self, now: Instant, local: Local) {
        self.locals.retain(|known| *known != local);
        self.setup.locals_changed(&self.locals);
        self.control.retain(|(route, _)| route.local != local);
        for gone in self.paths.remove_local(local) {
            self.on_path_gone(now, gone);
        }
        // Another link may have the same address.
        if self.locals.iter().all(|it| it.address != local.address) {
            self.request(AddressRequest::Delete(local.address));
        }
    }

    /// Adds a path between every local address and every address of the peer.
    pub(super) fn add_paths(&mut self, now: Instant) {
        for local in self.locals.clone() {
            for remote in self.peer_addresses() {
                self.add_path(now, Route { local, remote }, false);
            }
        }
    }

    /// Adds a path, unless its addresses are of different families.
    pub(super) fn add_path(&mut self, now: Instant, route: Route, confirmed: bool) {
        if route.local.address.is_ipv4() == route.remote.is_ipv4() {
            self.paths.add(now, route, confirmed);
        }
    }

    pub(super) fn on_path_gone(&mut self, now: Instant, gone: PathId) {
        if let Some(flow) = &mut self.flow {
            flow.outbound.on_path_gone(now, &mut self.paths, gone);
        }
    }

    /// Handles the route of a packet with the right tag. A NAT may have given its sender another
    /// port (RFC 6951 §5.4); under a seal the whole address may be new. A new route changes nothing
    /// until it has answered: a host on the way may have forwarded the packet.
    pub(super) fn on_route_seen(&mut self, now: Instant, route: Route) {
        if self.flow.is_none() || self.paths.find(&route).is_some() {
            return;
        }
        let is_sealed = self.config.checksum == Checksum::LowerLayer;
        let may_be_new = is_sealed || self.is_peer_address(route.remote.ip());
        let is_here = self.locals.contains(&route.local);
        if may_be_new && is_here && route.local.address.is_ipv4() == route.remote.is_ipv4() {
            self.paths.add_candidate(now, route);
        }
    }

    /// Handles a HEARTBEAT ACK.
    pub(super) fn on_heartbeat_ack(&mut self, now: Instant, from: SocketAddr, info: &[u8]) {
        let Some(route) = self.paths.on_heartbeat_ack(now, from, info) else {
            return;
        };
        if !self.has_room_for(now, route.remote.ip()) {
            return self.paths.remove_route(&route);
        }
        if !self.is_peer_address(route.remote.ip()) {
            self.on_peer_address(now, route.remote);
        }
        self.follow_ports();
        if let Some(flow) = &mut self.flow {
            // Acknowledgements to a port that a translator has forgotten are lost.
            flow.feedback.on_confirmed(route, &self.paths);
            flow.inbound.acknowledge_again(now);
        }
    }

    /// Handles timers of paths.
    pub(super) fn on_paths_timeout(&mut self, now: Instant) {
        let gone = self.paths.handle_timeout(now);
        for path in &gone {
            self.on_path_gone(now, *path);
        }
        if !gone.is_empty() {
            self.follow_ports();
        }
    }

    /// Tells whether the peer may have this address too. If it has too many, the address that has
    /// been silent for longest makes room. Answering addresses stay.
    fn has_room_for(&mut self, now: Instant, address: IpAddr) -> bool {
        let known = self.peer_addresses();
        if known.len() < MAX_PEER_ADDRESSES || known.iter().any(|it| it.ip() == address) {
            return true;
        }
        let silent = |it: &SocketAddr| Some((self.paths.silent_since(it.ip())?, it.ip()));
        let Some((_, oldest)) = known.iter().filter_map(silent).min() else {
            return false;
        };
        self.on_peer_address_gone(now, oldest);
        true
    }

    /// Handles an ASCONF chunk. One from an address that has not answered is dropped: the
    /// unspecified address in it would stand for the host that forwarded it. The peer repeats it.
    pub(super) fn on_asconf(
        &mut self,
        now: Instant,
        route: Route,
        serial: u32,
        parameters: &[Parameter],
    ) {
        let path = self.paths.find(&route).and_then(|id| self.paths.path(id));
        if path.is_none_or(Path::is_candidate) {
            return;
        }
        let known: Vec<IpAddr> = self.peer_addresses().iter().map(SocketAddr::ip).collect();
        let Some(asconf) = self.flow.as_mut().and_then(|flow| flow.asconf.as_mut()) else {
            return;
        };
        let Some(reply) = asconf.on_asconf(serial, parameters, route.remote.ip(), &known) else {
            return;
        };
        self.answer(route, reply.chunk);
        for change in reply.changes {
            match change {
                AddressRequest::Add(address) => {
                    let remote = SocketAddr::new(address, route.remote.port());
                    self.on_peer_address(now, remote);
                }
                AddressRequest::Delete(address) => self.on_peer_address_gone(now, address),
                AddressRequest::Prefer(address) => self.paths.prefer(address),
            }
        }
    }

    pub(super) fn on_asconf_ack(&mut self, serial: u32, parameters: &[Parameter]) {
        if let Some(asconf) = self.flow.as_mut().and_then(|flow| flow.asconf.as_mut()) {
            for answered in asconf.on_ack(serial, parameters) {
                tracing::debug!(?answered, "the peer has answered about an address");
            }
        }
    }

    /// Queues the next ASCONF about this end's addresses.
    pub(super) fn queue_asconf(&mut self, now: Instant) {
        let asconf = self.flow.as_ref().and_then(|flow| flow.asconf.as_ref());
        let due = asconf.and_then(Asconf::poll_timeout);
        if due.is_none_or(|at| at > now) {
            return;
        }
        let Some(path) = self.paths.best(now).and_then(|id| self.paths.path(id)) else {
            return;
        };
        let (route, rto) = (path.route, path.rtt.rto());
        let Some(asconf) = self.flow.as_mut().and_then(|flow| flow.asconf.as_mut()) else {
            return;
        };
        if let Some(chunk @ Chunk::Asconf { .. }) = asconf.poll_chunk(now, route.local.address, rto)
        {
            self.control.push_back((route, chunk));
        }
    }

    pub(super) fn peer_addresses(&self) -> Vec<SocketAddr> {
        let negotiated = self.setup.negotiated();
        negotiated.map_or(Vec::new(), |negotiated| negotiated.peer_addresses.clone())
    }

    fn request(&mut self, request: AddressRequest) {
        if let Some(asconf) = self.flow.as_mut().and_then(|flow| flow.asconf.as_mut()) {
            asconf.request(request);
        }
    }

    /// Handles a new address of the peer.
    fn on_peer_address(&mut self, now: Instant, remote: SocketAddr) {
        let mut known = self.peer_addresses();
        if !known.iter().any(|it| it.ip() == remote.ip()) {
            known.push(remote);
            self.set_peer_addresses(known);
        }
        self.add_paths(now);
    }

    fn on_peer_address_gone(&mut self, now: Instant, address: IpAddr) {
        self.control
            .retain(|(route, _)| route.remote.ip() != address);
        for gone in self.paths.remove_remote(address) {
            self.on_path_gone(now, gone);
        }
        let mut known = self.peer_addresses();
        known.retain(|it| it.ip() != address);
        self.set_peer_addresses(known);
    }

    /// Replaces the port of each address of the peer that no path leads to any more, by one that a
    /// path leads to.
    fn follow_ports(&mut self) {
        let mut known = self.peer_addresses();
        let mut has_changed = false;
        for address in &mut known {
            let ports = || {
                let paths = self.paths.iter().filter(|path| !path.is_candidate());
                let remotes = paths.map(|path| path.route.remote);
                remotes
                    .filter(|it| it.ip() == address.ip())
                    .map(|it| it.port())
            };
            if !ports().any(|port| port == address.port())
                && let Some(port) = ports().next()
            {
                address.set_port(port);
                has_changed = true;
            }
        }
        if has_changed {
            self.set_peer_addresses(known);
        }
    }

    fn is_peer_address(&self, address: IpAddr) -> bool {
        self.peer_addresses().iter().any(|it| it.ip() == address)
    }

    fn set_peer_addresses(&mut self, addresses: Vec<SocketAddr>) {
        self.setup.addresses_changed(&addresses);
        self.events.push_back(Event::PeerAddresses(addresses));
    }
}

#[cfg(test)]
mod tests;
