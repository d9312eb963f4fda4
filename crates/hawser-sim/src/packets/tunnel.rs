use std::time::Duration;

use bytes::Bytes;
use hawser_channels::association::{AssociationTunnel, TunnelStats, below_seal};
use hawser_scenario::Link;
use hawser_sched::packet::PacketPolicy;
use hawser_sched::rules::LinkRules;
use hawser_sctp::{AssociationConfig, LinkInfo, PathSelector};
use hawser_tunnel::{Delivery, ReceiverConfig, SenderConfig};
use hawser_types::{ByteCount, Instant};

use crate::association::{Fabric, client_local};

/// Two hosts with a tunnel between them, over an association with a path over each link.
#[derive(Debug)]
pub(super) struct Tunnel {
    now: Instant,
    fabric: Fabric,
}

impl Tunnel {
    /// Lets an association come to be over the links and find their packet sizes.
    pub(super) fn new(links: &[Link], policy: PacketPolicy, seed: u64) -> Option<Self> {
        let config = below_seal(AssociationConfig::default());
        let mut fabric = Fabric::of_links(&config, links, seed);
        if !fabric.establish(&config) {
            return None;
        }
        let now = fabric.now() + SETTLES;
        while fabric.step(now).is_some() {}
        let sender = SenderConfig {
            policy,
            seed,
            ..SenderConfig::default()
        };
        // A gateway knows the client's links by their addresses.
        let known = (0..links.len()).map(client_local).map(|local| LinkInfo {
            paths: PathSelector::Remote(local.address),
            link: local.link,
            rules: LinkRules::default(),
        });
        fabric.association(1).set_links(known.collect());
        for host in &mut fabric.hosts {
            host.tunnel = Some(AssociationTunnel::new(sender, ReceiverConfig::default()));
        }
        Some(Self { now, fabric })
    }

    pub(super) fn now(&self) -> Instant {
        self.now
    }

    /// Gives a packet to a host.
    pub(super) fn enqueue(&mut self, host: usize, packet: Bytes) {
        let now = self.now;
        let taken = self.end_mut(host).enqueue(now, packet);
        taken.expect("the simulator's packets are right");
    }

    /// Memory of the packets that wait at a host to be sent.
    pub(super) fn waiting(&self, host: usize) -> ByteCount {
        self.end(host).waiting()
    }

    /// Returns the next packet that a host hands on.
    pub(super) fn take(&mut self, host: usize) -> Option<Delivery> {
        self.end_mut(host).poll_delivery()
    }

    pub(super) fn stats(&self, host: usize) -> TunnelStats {
        self.end(host).stats()
    }

    /// Bytes that each link has carried from a host.
    pub(super) fn carried(&self, host: usize) -> Vec<u64> {
        let links = self.fabric.links().into_iter();
        let carried = links.map(|link| self.fabric.carried(link)[host].as_u64());
        carried.collect()
    }

    /// Sends what may leave.
    pub(super) fn pump(&mut self, host: usize) {
        self.fabric.pass(self.now);
        self.fabric.pump(host);
    }

    /// Lets time pass until something happens, at `until` at most.
    pub(super) fn step(&mut self, until: Instant) {
        self.fabric.step(until);
        self.now = self.now.max(self.fabric.now());
    }

    fn end(&self, host: usize) -> &AssociationTunnel {
        let tunnel = self.fabric.hosts[host].tunnel.as_ref();
        tunnel.expect("both hosts have one")
    }

    fn end_mut(&mut self, host: usize) -> &mut AssociationTunnel {
        let tunnel = self.fabric.hosts[host].tunnel.as_mut();
        tunnel.expect("both hosts have one")
    }
}

/// As long as the search for the packet size takes.
const SETTLES: Duration = Duration::from_secs(3);
