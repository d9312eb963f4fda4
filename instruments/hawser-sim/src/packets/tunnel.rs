use std::time::Duration;

use bytes::Bytes;
use hawser_channels::association::{AssociationTunnel, TunnelStats, below_seal};
use hawser_scenario::{Action, Link};
use hawser_sched::packet::PacketPolicy;
use hawser_sched::rules::LinkRules;
use hawser_sched::signal::{SignalJudge, SignalThresholds};
use hawser_sctp::{AssociationConfig, LinkInfo, Local, PathSelector};
use hawser_tunnel::{Delivery, ReceiverConfig, SenderConfig};
use hawser_types::{Instant, Radio, SignalState, SignalStrength};

use crate::association::{Fabric, client_local};

/// Two hosts with a tunnel between them, over an association with a path over each link.
#[derive(Debug)]
pub(super) struct Tunnel {
    now: Instant,
    fabric: Fabric,
    signals: Vec<SignalJudge>,
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
        for host in &mut fabric.hosts {
            host.tunnel = Some(AssociationTunnel::new(sender, ReceiverConfig::default()));
        }
        let mut tunnel = Self {
            now,
            fabric,
            signals: vec![unread(); links.len()],
        };
        tunnel.set_links();
        Some(tunnel)
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

    /// Returns the next packet that a host hands on.
    pub(super) fn take(&mut self, host: usize) -> Option<Delivery> {
        self.end_mut(host).poll_delivery()
    }

    pub(super) fn stats(&self, host: usize) -> TunnelStats {
        let tunnel = self.fabric.hosts[host].tunnel.as_ref();
        tunnel.expect("both hosts have one").stats()
    }

    /// Lets something happen to a link, from 0.
    pub(super) fn act(&mut self, link: usize, action: Action) {
        self.fabric.pass(self.now);
        self.fabric.act(link, action);
        // A link that is back is judged anew. While it is away, a daemon has no path over it.
        if action == Action::CarrierUp {
            self.signals[link] = unread();
            self.set_links();
        }
    }

    /// Has the client read the signal of a link, from 0. Both ends leave one that is about to go.
    pub(super) fn read_signal(&mut self, link: usize, strength: SignalStrength) {
        self.fabric.pass(self.now);
        self.signals[link].handle_reading(self.now, strength);
        self.set_links();
    }

    /// A gateway knows the client's links by their addresses.
    fn set_links(&mut self) {
        let signals = &self.signals;
        let known = |paths: fn(Local) -> PathSelector| {
            let links = signals.iter().enumerate().map(|(number, signal)| {
                let (local, rules) = (client_local(number), LinkRules::default());
                LinkInfo {
                    paths: paths(local),
                    link: local.link,
                    rules: match signal.state() {
                        SignalState::Good => rules,
                        SignalState::Fading | SignalState::Lost => rules.while_fading(),
                    },
                }
            });
            links.collect::<Vec<_>>()
        };
        let ends = [
            known(|local| PathSelector::Link(local.link)),
            known(|local| PathSelector::Remote(local.address)),
        ];
        for (host, links) in ends.into_iter().enumerate() {
            self.fabric.association(host).set_links(links);
            self.fabric.pump(host);
        }
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

    fn end_mut(&mut self, host: usize) -> &mut AssociationTunnel {
        let tunnel = self.fabric.hosts[host].tunnel.as_mut();
        tunnel.expect("both hosts have one")
    }
}

fn unread() -> SignalJudge {
    SignalJudge::new(SignalThresholds::of(Radio::WiFi))
}

/// As long as the search for the packet size takes.
const SETTLES: Duration = Duration::from_secs(3);
