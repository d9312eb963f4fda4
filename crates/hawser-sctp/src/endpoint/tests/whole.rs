//! Two endpoints with their associations and the network between them.

use std::collections::{BTreeMap, VecDeque};

use hawser_wire::sctp::{Parameter, StreamNumber};
use proptest::prelude::*;

use super::*;
use crate::testing::{locals, socket};
use crate::{Association, AssociationId, Closed, ConnectError, Event, Message, Transmit};

/// An endpoint, its associations and their events.
pub(super) struct Host {
    address: &'static str,
    pub(super) endpoint: Endpoint,
    associations: BTreeMap<AssociationId, Association>,
    pub(super) events: Vec<Event>,
}

impl Host {
    fn new(address: &'static str, seed: u64) -> Self {
        Self::with(address, seed, AssociationConfig::default())
    }

    pub(super) fn with(address: &'static str, seed: u64, config: AssociationConfig) -> Self {
        let config = EndpointConfig::new(config, &locals(&[address]));
        Self {
            address,
            endpoint: Endpoint::new(config, [9; 32], seed),
            associations: BTreeMap::new(),
            events: Vec::new(),
        }
    }

    fn connect(&mut self, now: Instant, to: &str) {
        let config = self.endpoint.config.association.clone();
        let here = locals(&[self.address]);
        let begun = self.endpoint.connect(now, config, &here, &[socket(to)]);
        self.associations.extend(begun.ok());
    }

    fn handle(&mut self, now: Instant, from: &str, datagram: Bytes) -> Option<Transmit> {
        match self
            .endpoint
            .handle_datagram(now, route(self.address, from), datagram)
        {
            Handled::Reply(transmit) => return Some(transmit),
            Handled::Ignored(_) => {}
            Handled::Accepted(id, association) => {
                self.associations.insert(id, *association);
            }
            Handled::For(id, packet) => {
                let association = self.associations.get_mut(&id).unwrap();
                association.handle_packet(now, route(self.address, from), &packet);
            }
        }
        None
    }

    pub(super) fn drain(&mut self, now: Instant) -> Vec<Transmit> {
        let mut all = Vec::new();
        for (id, association) in &mut self.associations {
            all.extend(std::iter::from_fn(|| association.poll_transmit(now)));
            let told: Vec<Event> = std::iter::from_fn(|| association.poll_event()).collect();
            if told.iter().any(|it| matches!(it, Event::Closed(_))) {
                self.endpoint.forget(*id);
            }
            self.events.extend(told);
        }
        let endpoint = &self.endpoint;
        self.associations.retain(|id, _| endpoint.has(*id));
        all
    }

    fn wake_up(&mut self, now: Instant) {
        for association in self.associations.values_mut() {
            if association.poll_timeout().is_some_and(|at| at <= now) {
                association.handle_timeout(now);
            }
        }
    }

    fn next(&self) -> Option<Instant> {
        self.associations
            .values()
            .filter_map(Association::poll_timeout)
            .min()
    }

    /// Returns its only association.
    pub(super) fn only(&mut self) -> &mut Association {
        assert_eq!(self.associations.len(), 1);
        self.associations.values_mut().next().expect("there is one")
    }

    /// Returns the only message that has arrived.
    pub(super) fn only_message(&mut self) -> Bytes {
        let received = self.only().receive().expect("it has arrived");
        assert!(self.only().receive().is_none());
        received.payload()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.associations.is_empty() && self.endpoint.is_empty()
    }

    pub(super) fn count(&self, event: &Event) -> usize {
        self.events.iter().filter(|it| *it == event).count()
    }
}

/// The network: delivers packets in order, unless `fate` says otherwise.
pub(super) struct Net {
    pub(super) now: Instant,
    pub(super) hosts: [Host; 2],
    in_flight: VecDeque<(usize, Bytes)>,
}

/// Fate of a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fate {
    Arrives,
    Lost,
    Twice,
    /// It arrives after those that follow it.
    Late,
}

impl Net {
    pub(super) fn new() -> Self {
        Self::with(AssociationConfig::default())
    }

    fn with(config: AssociationConfig) -> Self {
        Self {
            now: later(),
            hosts: [
                Host::with(HOME, 1, config.clone()),
                Host::with(AWAY, 2, config),
            ],
            in_flight: VecDeque::new(),
        }
    }

    pub(super) fn connect(&mut self, host: usize) {
        let to = [AWAY, HOME][host];
        self.hosts[host].connect(self.now, to);
    }

    /// Delivers all packets in flight and those that they cause.
    pub(super) fn settle(&mut self, fate: &mut dyn FnMut() -> Fate) {
        for _ in 0..200 {
            if !self.step(fate) {
                break;
            }
        }
    }

    /// Delivers the next packet in flight, if there is one.
    fn step(&mut self, fate: &mut dyn FnMut() -> Fate) -> bool {
        for host in 0..2 {
            let sent = self.hosts[host].drain(self.now);
            self.in_flight
                .extend(sent.into_iter().map(|it| (1 - host, it.datagram)));
        }
        let Some((to, datagram)) = self.in_flight.pop_front() else {
            return false;
        };
        match fate() {
            Fate::Arrives => self.deliver(to, datagram),
            Fate::Lost => {}
            Fate::Twice => {
                self.deliver(to, datagram.clone());
                self.deliver(to, datagram);
            }
            Fate::Late => self.in_flight.push_back((to, datagram)),
        }
        true
    }

    pub(super) fn deliver(&mut self, to: usize, datagram: Bytes) {
        let from = [AWAY, HOME][to];
        let reply = self.hosts[to].handle(self.now, from, datagram);
        self.in_flight.extend(reply.map(|it| (1 - to, it.datagram)));
    }

    /// Advances to the next timer, if there is one within a minute.
    fn wake_up(&mut self) {
        let next = self.hosts.iter().filter_map(Host::next).min();
        self.now = next.unwrap_or(self.now).max(self.now);
        for host in &mut self.hosts {
            host.wake_up(self.now);
        }
    }

    pub(super) fn say(&mut self, host: usize, byte: u8) {
        let message = Message::new(vec![byte; 10].into());
        let (now, stream) = (self.now, StreamNumber::new(0));
        let sent = self.hosts[host].only().send(now, stream, message);
        sent.expect("it is established");
    }

    /// Runs until `is_done`, or for a long time.
    pub(super) fn run(&mut self, fate: &mut dyn FnMut() -> Fate, is_done: impl Fn(&Self) -> bool) {
        for _ in 0..1000 {
            self.settle(fate);
            if is_done(self) {
                break;
            }
            self.wake_up();
        }
    }

    /// Checks that messages of either host arrive at the other, and no others.
    pub(super) fn exchange(&mut self) {
        self.say(0, 1);
        self.say(1, 2);
        for _ in 0..20 {
            self.settle(&mut arrives);
            self.wake_up();
        }
        assert_eq!(self.hosts[0].only_message()[..], [2; 10]);
        assert_eq!(self.hosts[1].only_message()[..], [1; 10]);
    }

    fn are_established(&self) -> bool {
        self.hosts
            .iter()
            .all(|it| it.count(&Event::Established) > 0)
    }
}

pub(super) fn arrives() -> Fate {
    Fate::Arrives
}

#[test]
fn two_hosts_come_together() {
    let mut net = Net::new();
    net.connect(0);
    net.settle(&mut arrives);
    for host in &net.hosts {
        assert_eq!(host.count(&Event::Established), 1);
    }
    net.exchange();
}

#[test]
fn two_hosts_that_begin_at_once_come_together_once() {
    let mut net = Net::new();
    net.connect(0);
    net.connect(1);
    net.settle(&mut arrives);
    for host in &net.hosts {
        assert_eq!(host.count(&Event::Established), 1);
        assert_eq!(host.endpoint.len(), 1);
    }
    net.exchange();
}

#[test]
fn a_host_that_lost_everything_begins_anew_and_its_new_packets_find_the_way() {
    let mut net = Net::new();
    net.connect(0);
    net.settle(&mut arrives);
    for seed in 10..14 {
        net.hosts[0] = Host::new(HOME, seed);
        net.connect(0);
        net.settle(&mut arrives);
        assert_eq!(net.hosts[0].count(&Event::Established), 1, "time {seed}");
        net.exchange();
    }
    assert_eq!(net.hosts[1].count(&Event::Restarted), 4);
    assert_eq!(net.hosts[1].endpoint.len(), 1);
}

#[test]
fn two_hosts_with_a_seal_below_come_together_and_leave_checksums_out() {
    let sealed = || AssociationConfig {
        checksum: crate::Checksum::LowerLayer,
        ..AssociationConfig::default()
    };
    let mut net = Net::new();
    net.hosts = [Host::with(HOME, 1, sealed()), Host::with(AWAY, 2, sealed())];
    net.connect(0);
    net.settle(&mut arrives);
    net.exchange();
    let now = net.now;
    net.hosts[0].only().shutdown(now);
    let sent = net.hosts[0].drain(now);
    assert!(!sent.is_empty());
    assert!(sent.iter().all(|it| it.datagram[8..12] == [0; 4]));
}

#[test]
fn what_was_sent_before_the_end_arrives_and_both_hosts_forget() {
    let mut net = Net::new();
    net.connect(0);
    net.settle(&mut arrives);
    net.say(1, 7);
    let now = net.now;
    net.hosts[1].only().shutdown(now);
    net.settle(&mut arrives);
    assert_eq!(net.hosts[0].only_message()[..], [7; 10]);
    net.run(&mut arrives, |net| net.hosts.iter().all(Host::is_closed));
    for host in &net.hosts {
        assert_eq!(host.events.last(), Some(&Event::Closed(Closed::Shutdown)));
    }
    assert_eq!(net.hosts[0].count(&Event::PeerClosing), 1);
}

#[test]
fn an_end_without_warning_is_told_with_its_reason() {
    let mut net = Net::new();
    net.connect(0);
    net.settle(&mut arrives);
    net.hosts[0].only().abort(Bytes::from_static(b"enough"));
    net.settle(&mut arrives);
    let told = Closed::AbortedByPeer(Bytes::from_static(b"enough"));
    assert_eq!(
        net.hosts[0].events.last(),
        Some(&Event::Closed(Closed::Aborted))
    );
    assert_eq!(net.hosts[1].events.last(), Some(&Event::Closed(told)));
    assert!(net.hosts.iter().all(Host::is_closed));
}

#[test]
fn a_peer_that_has_accepted_is_told_of_an_end_before_this_host_knew_of_it() {
    let mut net = Net::new();
    net.connect(0);
    let mut count = 0;
    net.settle(&mut || {
        count += 1;
        // INIT, INIT ACK and COOKIE ECHO.
        if count <= 3 {
            Fate::Arrives
        } else {
            Fate::Lost
        }
    });
    assert_eq!(net.hosts[0].count(&Event::Established), 0);
    assert_eq!(net.hosts[1].count(&Event::Established), 1);
    net.hosts[0].only().abort(Bytes::from_static(b"enough"));
    net.settle(&mut arrives);
    let told = Closed::AbortedByPeer(Bytes::from_static(b"enough"));
    assert_eq!(net.hosts[1].events.last(), Some(&Event::Closed(told)));
}

#[test]
fn an_end_that_was_wanted_comes_though_the_peer_begins_anew() {
    let mut net = Net::new();
    net.connect(0);
    net.settle(&mut arrives);
    net.say(1, 7);
    let now = net.now;
    net.hosts[1].only().shutdown(now);
    net.hosts[1].drain(now);
    net.hosts[0] = Host::new(HOME, 10);
    net.connect(0);
    net.run(&mut arrives, |net| net.hosts.iter().all(Host::is_closed));
    let ended = Event::Closed(Closed::Shutdown);
    assert_eq!(net.hosts[1].count(&Event::Restarted), 1);
    assert!(
        net.hosts
            .iter()
            .all(|host| host.events.last() == Some(&ended))
    );
}

#[test]
fn the_smallest_packets_still_carry_data() {
    let config = AssociationConfig {
        max_packet: 0,
        ..AssociationConfig::default()
    };
    let mut net = Net::new();
    net.hosts[1] = Host::with(AWAY, 2, config);
    net.connect(0);
    net.settle(&mut arrives);
    net.exchange();
}

#[test]
fn a_peer_that_knows_nothing_of_it_any_more_ends_it() {
    let mut net = Net::new();
    net.connect(0);
    net.settle(&mut arrives);
    net.hosts[1] = Host::new(AWAY, 5);
    net.run(&mut arrives, |net| net.hosts[0].is_closed());
    let ended = Event::Closed(Closed::AbortedByPeer(Bytes::new()));
    assert_eq!(net.hosts[0].events.last(), Some(&ended));
}

#[test]
fn a_client_that_finds_no_listener_is_refused() {
    let mut net = Net::new();
    net.hosts[1].endpoint.config.accepts = false;
    net.connect(0);
    net.settle(&mut arrives);
    assert_eq!(net.hosts[0].events, [Event::Closed(Closed::Refused)]);
}

#[test]
fn a_beginning_that_can_lead_nowhere_is_refused_at_once() {
    let mut host = Host::new(HOME, 1);
    let config = AssociationConfig::default;
    let here = locals(&[HOME]);
    let mut connect = |to: &[&str]| {
        let to: Vec<_> = to.iter().map(|it| socket(it)).collect();
        host.endpoint
            .connect(later(), config(), &here, &to)
            .map(drop)
    };
    assert_eq!(connect(&[]), Err(ConnectError::NoRoute));
    assert_eq!(
        connect(&["2001:db8::1", "255.255.255.255"]),
        Err(ConnectError::NoRoute)
    );
    assert_eq!(connect(&[AWAY]), Ok(()));
    assert_eq!(connect(&["203.0.113.1", AWAY]), Err(ConnectError::Exists));
    host.endpoint.config.max_associations = 1;
    let full = host
        .endpoint
        .connect(later(), config(), &here, &[socket("203.0.113.1")]);
    assert_eq!(full.map(drop), Err(ConnectError::Full(1)));
}

/// A host that lists addresses of other hosts directs heartbeats to them.
#[test]
fn addresses_that_never_answer_are_asked_ever_more_seldom() {
    let mut endpoint = endpoint();
    let others: Vec<String> = (1..=15).map(|it| format!("203.0.113.{it}")).collect();
    let listed = others
        .iter()
        .map(|it| Parameter::Address(crate::testing::ip(it)))
        .collect();
    let answer = init_ack(&mut endpoint, from_away(), init(PEER, listed));
    let handled = endpoint.handle_datagram(later(), from_away(), echo(&answer));
    let Handled::Accepted(_, mut association) = handled else {
        panic!("not accepted: {handled:?}");
    };
    let mut count = 0;
    let end = crate::testing::seconds(1 + 3600);
    let mut now = later();
    loop {
        association.handle_timeout(now);
        while let Some(transmit) = association.poll_transmit(now) {
            let sent = Sent::of(&transmit);
            if transmit.route == from_away() {
                // The host that listed them keeps the association alive.
                for chunk in sent.chunks {
                    if let Chunk::Heartbeat(info) = chunk {
                        let tag = answer.tag.value();
                        let datagram = packet(tag, &[Chunk::HeartbeatAck(info)]);
                        let packet = match endpoint.handle_datagram(now, from_away(), datagram) {
                            Handled::For(_, packet) => packet,
                            other => panic!("not for it: {other:?}"),
                        };
                        association.handle_packet(now, from_away(), &packet);
                    }
                }
            } else {
                count += 1;
                assert!(transmit.datagram.len() < 64);
            }
        }
        now = association.poll_timeout().expect("it is alive");
        if now >= end {
            break;
        }
    }
    assert!(
        count <= 15 * 75,
        "{count} packets in an hour to 15 addresses"
    );
}

/// An event in the life of two hosts.
#[derive(Clone, Copy, Debug)]
enum Op {
    Connect(usize),
    /// A host loses all state.
    Restart(usize),
    /// The next packet in flight meets this fate.
    Packet(Fate),
    /// Time advances to the next timer.
    Wait,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        2 => (0usize..2).prop_map(Op::Connect),
        1 => (0usize..2).prop_map(Op::Restart),
        8 => Just(Op::Packet(Fate::Arrives)),
        1 => Just(Op::Packet(Fate::Lost)),
        2 => Just(Op::Packet(Fate::Twice)),
        2 => Just(Op::Packet(Fate::Late)),
        2 => Just(Op::Wait),
    ];
    proptest::collection::vec(op, 0..60)
}

fn fates() -> impl Strategy<Value = Vec<Fate>> {
    let fate = prop_oneof![
        2 => Just(Fate::Arrives),
        1 => Just(Fate::Lost),
        1 => Just(Fate::Twice),
        1 => Just(Fate::Late),
    ];
    proptest::collection::vec(fate, 0..MAX_FATES)
}

/// Bound on the number of packets that [`fates`] decides about.
const MAX_FATES: usize = 40;

/// Configuration of a host that gives up for no number of losses that [`fates`] has.
///
/// With the default limits six lost COOKIE ECHOs are the end: the seventh leaves after 63 s, and
/// the cookie is stale after 60 s.
fn that_never_gives_up() -> AssociationConfig {
    let retransmissions = MAX_FATES as u32;
    AssociationConfig {
        cookie_life: std::time::Duration::from_secs(24 * 3600),
        max_init_retransmissions: retransmissions,
        path_max_retransmissions: retransmissions,
        association_max_retransmissions: retransmissions,
        ..AssociationConfig::default()
    }
}

proptest! {
    #[test]
    fn hosts_come_together_whatever_is_lost_doubled_or_late(
        fates in fates(),
        both in any::<bool>(),
    ) {
        let mut net = Net::with(that_never_gives_up());
        net.connect(0);
        if both {
            net.connect(1);
        }
        let mut fates = fates.into_iter();
        let mut fate = || fates.next().unwrap_or(Fate::Arrives);
        net.run(&mut fate, Net::are_established);
        prop_assert!(net.are_established());
        for host in &net.hosts {
            prop_assert_eq!(host.count(&Event::Restarted), 0);
        }
        net.exchange();
    }
    #[test]
    fn hosts_part_in_peace_whatever_is_lost_doubled_or_late(
        fates in fates(),
        both in any::<bool>(),
    ) {
        let mut net = Net::with(that_never_gives_up());
        net.connect(0);
        net.settle(&mut arrives);
        net.say(0, 1);
        net.say(1, 2);
        let now = net.now;
        net.hosts[0].only().shutdown(now);
        if both {
            net.hosts[1].only().shutdown(now);
        }
        let mut fates = fates.into_iter();
        let mut fate = || fates.next().unwrap_or(Fate::Arrives);
        net.run(&mut fate, |net| net.hosts.iter().all(Host::is_closed));
        for host in &net.hosts {
            prop_assert_eq!(host.events.last(), Some(&Event::Closed(Closed::Shutdown)));
        }
    }
    #[test]
    fn hosts_agree_in_the_end_whatever_happened(ops in ops()) {
        let mut net = Net::new();
        for (op, seed) in ops.into_iter().zip(100..) {
            match op {
                Op::Connect(host) => net.connect(host),
                Op::Restart(host) => net.hosts[host] = Host::new([HOME, AWAY][host], seed),
                Op::Packet(fate) => {
                    net.step(&mut || fate);
                }
                Op::Wait => net.wake_up(),
            }
        }
        // Hosts with different state notice it within some heartbeats.
        for _ in 0..300 {
            net.settle(&mut arrives);
            net.wake_up();
        }
        let counts = net.hosts.each_ref().map(|it| it.associations.len());
        prop_assert_eq!(counts[0], counts[1]);
        if counts == [1, 1] {
            net.exchange();
        }
    }
}
