//! Two endpoints with an association between them, driven by a script.

mod placed;

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hawser_sched::chunk::ChunkPolicy;
use hawser_types::{ByteCount, Instant};
use hawser_wire::script::Script;
use hawser_wire::sctp::StreamNumber;

use super::contents::Contents;
use super::network::{LINKS, Network, Packet, local, remote};
use crate::{
    Association, AssociationConfig, AssociationId, Checksum, Closed, Control, Endpoint,
    EndpointConfig, Event, Framing, Handled, Message, Reliability,
};

/// Bound of the memory of both hosts and of the network between them under any script: buffers of
/// 64 KiB each way with the overhead of small parts, and 2048 packets in flight.
pub const MAX_PAIR_MEMORY: u64 = 16 << 20;

/// Drives two endpoints through a script: messages, time, packets that get lost, come twice or in
/// another order, ports and addresses that move, ends, and packets that an attacker alters or makes
/// up, as one does who has the keys.
///
/// Panics when an association breaks a promise. Whatever came: everything can be drained, timers
/// move on, and paths and queues stay within their limits. As long as no end lied: messages arrive
/// once, whole, as they were sent, and no end calls the other one's packets a violation. If no
/// address moved besides, all messages arrive that have to, once the network carries packets again.
pub fn fuzz_pair(script: &[u8]) {
    let mut script = Script::new(script);
    let mut world = World::new(&mut script);
    let mut steps = 0;
    while !script.is_over() && steps < MAX_STEPS {
        world.step(&mut script);
        world.settle();
        steps += 1;
    }
    world.check_paths();
    if world.is_honest && !world.has_moved {
        world.bring_everything_home();
    }
}

struct World {
    now: Instant,
    hosts: [Host; 2],
    network: Network,
    /// No packet was forged or altered so far.
    is_honest: bool,
    /// An address or a port has changed, or an end was asked to end.
    has_moved: bool,
}

struct Host {
    endpoint: Endpoint,
    config: AssociationConfig,
    association: Option<(AssociationId, Box<Association>)>,
    /// Contents that this host sent.
    contents: Contents,
    /// Messages that it has placed, and those of them that have come.
    placed: u64,
    placed_seen: BTreeSet<u64>,
    closed: Option<Closed>,
}

impl World {
    fn new(script: &mut Script<'_>) -> Self {
        let how = script.byte();
        let config = AssociationConfig {
            checksum: match how & 1 {
                0 => Checksum::LowerLayer,
                _ => Checksum::Crc32c,
            },
            framing: match how & 3 {
                0 => Framing::Compact,
                _ => Framing::Whole,
            },
            announces_links: how & 4 != 0,
            interleaving: how & 8 != 0,
            partial_reliability: how & 16 == 0,
            control: CONTROLS[usize::from(how >> 5) % CONTROLS.len()],
            policy: ChunkPolicy::ALL[script.below(ChunkPolicy::ALL.len())],
            placed_stream: (how & 2 == 0).then_some(PLACED),
            outbound_streams: STREAMS,
            inbound_streams: STREAMS,
            receive_buffer: AssociationConfig::MIN_BUFFER,
            send_buffer: AssociationConfig::MIN_BUFFER,
            max_message: ByteCount::new(1 << 16),
            ..AssociationConfig::default()
        };
        let host = |number: usize| Host {
            endpoint: Endpoint::new(
                EndpointConfig::new(config.clone(), &[local(number, 0), local(number, 1)]),
                [number as u8; 32],
                0,
            ),
            config: config.clone(),
            association: None,
            contents: Contents::default(),
            placed: 0,
            placed_seen: BTreeSet::new(),
            closed: None,
        };
        let mut world = Self {
            now: Instant::from_nanos(1_000_000_000),
            hosts: [host(0), host(1)],
            network: Network::new(),
            is_honest: true,
            has_moved: false,
        };
        world.connect(0);
        if script.byte() & 1 == 0 {
            (0..4).for_each(|_| world.deliver_all());
        }
        world
    }

    fn step(&mut self, script: &mut Script<'_>) {
        let op = script.byte();
        let host = usize::from(op >> 7);
        match op % 32 {
            0..=3 => self.send(host, script),
            4 | 5 => self.receive(host),
            6..=8 => self.pass_time(Duration::from_millis(u64::from(script.byte()))),
            9 => self.pass_time(Duration::from_millis(u64::from(script.byte()) * 100)),
            10..=13 => self.deliver(script),
            14..=16 => self.deliver_all(),
            17 | 18 => self.lose(script),
            19 => self.network.repeat(script.below(256)),
            20 => self.move_port(host, script),
            21 => self.add_local(host, script),
            22 => self.remove_local(host, script),
            23 => self.set_policy(host, script),
            24 => self.end(host, script),
            25 => self.connect(host),
            26..=28 => self.alter(script),
            29 => self.place(host, script),
            _ => self.forge(host, script),
        }
    }

    fn association(&mut self, host: usize) -> Option<&mut Association> {
        let association = self.hosts[host].association.as_mut();
        association.map(|(_, association)| &mut **association)
    }

    // Actions of the owners.

    fn connect(&mut self, host: usize) {
        let remotes = [remote(1 - host, 0), remote(1 - host, 1)];
        let Host {
            endpoint,
            config,
            association,
            ..
        } = &mut self.hosts[host];
        if association.is_none() {
            let locals = [local(host, 0), local(host, 1)];
            let begun = endpoint.connect(self.now, config.clone(), &locals, &remotes);
            *association = begun.ok().map(|(id, begun)| (id, Box::new(begun)));
            self.settle();
        }
    }

    fn send(&mut self, host: usize, script: &mut Script<'_>) {
        let (how, stream) = (script.byte(), script.below(usize::from(STREAMS)) as u16);
        let length = usize::from(script.short() >> (how & 7));
        let now = self.now;
        let (number, payload) = self.hosts[host].contents.next(length);
        let message = Message {
            owner_stream: None,
            payload,
            protocol: number,
            unordered: how & 8 != 0,
            reliability: match how >> 4 & 3 {
                0 => Reliability::Retransmissions(u32::from(how >> 6)),
                1 => Reliability::Lifetime(Duration::from_millis(u64::from(how))),
                _ => Reliability::Full,
            },
            twice: how & 64 != 0,
        };
        let Some(association) = self.association(host) else {
            return;
        };
        let taken = association.send(now, StreamNumber::new(stream), message.clone());
        if taken.is_ok() {
            self.hosts[host].contents.on_sent(number, stream, &message);
        }
    }

    fn receive(&mut self, host: usize) {
        self.receive_placed(host);
        while let Some(received) = self.association(host).and_then(Association::receive) {
            if self.is_honest {
                self.hosts[1 - host].contents.on_received(&received);
            }
        }
    }

    fn add_local(&mut self, host: usize, script: &mut Script<'_>) {
        let (now, added) = (self.now, local(host, script.below(LINKS)));
        if let Some(association) = self.association(host) {
            association.add_local(now, added);
            self.has_moved = true;
        }
    }

    fn remove_local(&mut self, host: usize, script: &mut Script<'_>) {
        let (now, removed) = (self.now, local(host, script.below(LINKS)));
        if let Some(association) = self.association(host) {
            association.remove_local(now, removed);
            self.has_moved = true;
        }
    }

    fn set_policy(&mut self, host: usize, script: &mut Script<'_>) {
        let policy = ChunkPolicy::ALL[script.below(ChunkPolicy::ALL.len())];
        if let Some(association) = self.association(host) {
            association.set_policy(policy);
        }
    }

    fn end(&mut self, host: usize, script: &mut Script<'_>) {
        let (now, how) = (self.now, script.byte());
        let Some(association) = self.association(host) else {
            return;
        };
        match how {
            0..32 => association.shutdown(now),
            32..48 => association.abort(Bytes::from_static(b"enough")),
            _ => return,
        }
        self.has_moved = true;
    }

    // Actions of the network.

    fn deliver(&mut self, script: &mut Script<'_>) {
        let (which, count) = (script.below(256), script.below(16) + 1);
        for _ in 0..count {
            let Some(packet) = self.network.take(which) else {
                return;
            };
            self.hand_over(packet);
        }
    }

    /// Delivers what is in flight, in order; not what that causes.
    fn deliver_all(&mut self) {
        let all: Vec<_> = std::iter::from_fn(|| self.network.take(0)).collect();
        for packet in all {
            self.hand_over(packet);
        }
        self.settle();
    }

    fn lose(&mut self, script: &mut Script<'_>) {
        let (which, count) = (script.below(256), script.below(32) + 1);
        for _ in 0..count {
            self.network.take(which);
        }
    }

    fn move_port(&mut self, host: usize, script: &mut Script<'_>) {
        self.network.move_port(host, script.below(LINKS));
        self.has_moved = true;
    }

    fn alter(&mut self, script: &mut Script<'_>) {
        let (which, place) = (script.below(256), usize::from(script.short()));
        let (cut, bits) = (script.byte(), script.byte());
        let Some(packet) = self.network.packet(which) else {
            return;
        };
        let mut altered = BytesMut::from(&packet.datagram[..]);
        let place = place % altered.len().max(1);
        if let Some(byte) = altered.get_mut(place) {
            *byte ^= bits.max(1);
        }
        if cut & 7 == 7 {
            altered.truncate(place);
        }
        packet.datagram = altered.freeze();
        self.is_honest = false;
    }

    /// A packet comes that begins like the latest one and goes on as the script has it.
    fn forge(&mut self, to: usize, script: &mut Script<'_>) {
        let latest = self.network.latest(to);
        let kept = script.below(64).min(latest.len());
        let mut datagram = BytesMut::from(&latest[..kept]);
        datagram.extend_from_slice(script.bytes());
        let how = script.byte();
        let mut source = remote(1 - to, usize::from(how & 1));
        if how & 2 != 0 {
            source.set_port(u16::from(how) + 5000);
        }
        let route = crate::Route {
            local: local(to, usize::from(how >> 2)),
            remote: source,
        };
        self.is_honest = false;
        self.hand_over(Packet {
            to,
            route,
            datagram: datagram.freeze(),
        });
    }

    fn hand_over(&mut self, packet: Packet) {
        let Packet {
            to,
            route,
            datagram,
        } = packet;
        let now = self.now;
        let host = &mut self.hosts[to];
        match host.endpoint.handle_datagram(now, route, datagram) {
            Handled::Ignored(_) => {}
            Handled::Reply(reply) => self.network.send(to, reply),
            Handled::Accepted(id, association) => {
                if let Some((before, _)) = host.association.replace((id, association)) {
                    host.endpoint.forget(before);
                    // Two at once: what the first one had may be lost.
                    self.has_moved = true;
                }
            }
            Handled::For(id, packet) => {
                if let Some((own, association)) = &mut host.association
                    && *own == id
                {
                    association.handle_packet(now, route, &packet);
                }
            }
        }
    }

    // Time.

    fn pass_time(&mut self, time: Duration) {
        self.now += time;
        let now = self.now;
        for host in [0, 1] {
            for count in 0.. {
                let Some(association) = self.association(host) else {
                    break;
                };
                if association.poll_timeout().is_none_or(|at| at > now) {
                    break;
                }
                assert!(count < MAX_ROUNDS, "a timer does not move on");
                association.handle_timeout(now);
                self.settle();
            }
        }
    }

    /// Drains both hosts.
    fn settle(&mut self) {
        for host in [0, 1] {
            for count in 0.. {
                let now = self.now;
                let Some(association) = self.association(host) else {
                    break;
                };
                let Some(transmit) = association.poll_transmit(now) else {
                    break;
                };
                assert!(count < MAX_AT_ONCE, "it never stops sending");
                self.network.send(host, transmit);
            }
            for count in 0.. {
                let event = self.association(host).and_then(Association::poll_event);
                let Some(event) = event else {
                    break;
                };
                assert!(count < MAX_AT_ONCE, "events never end");
                self.on_event(host, event);
            }
        }
    }

    fn on_event(&mut self, host: usize, event: Event) {
        match event {
            Event::Closed(why) => {
                let is_blamed = matches!(why, Closed::Misbehaved(_));
                assert!(
                    !(self.is_honest && is_blamed),
                    "an honest peer is blamed: {why:?}"
                );
                self.hosts[host].closed = Some(why);
            }
            Event::Restarted => self.has_moved = true,
            Event::PeerAddresses(addresses) => {
                let host = &mut self.hosts[host];
                if let Some((id, _)) = host.association {
                    host.endpoint.addresses_changed(id, &addresses);
                }
            }
            _ => {}
        }
    }

    // Promises.

    fn check_paths(&mut self) {
        let now = self.now;
        for host in [0, 1] {
            if let Some(association) = self.association(host) {
                let paths = association.paths(now).len();
                assert!(paths <= MAX_PATHS, "there are {paths} paths");
            }
        }
    }

    /// With a network that carries everything, all messages arrive that have to.
    fn bring_everything_home(&mut self) {
        for _ in 0..MAX_ROUNDS {
            self.deliver_all();
            [0, 1].into_iter().for_each(|host| self.receive(host));
            self.settle();
            let is_over = self.hosts.iter().any(|host| host.closed.is_some());
            let is_missing = self.hosts.iter().any(|it| it.contents.missing().is_some());
            if is_over || !is_missing {
                return;
            }
            let timers = self.hosts.iter().filter_map(|it| it.association.as_ref());
            let next = timers.filter_map(|(_, it)| it.poll_timeout()).min();
            let soon = self.now + Duration::from_millis(20);
            let next = next.map_or(soon, |next| next.clamp(self.now, soon));
            self.pass_time(next.since(self.now));
        }
        let missing = [0, 1].map(|host| self.hosts[host].contents.missing());
        panic!("messages never arrive: {missing:?}");
    }
}

const CONTROLS: [Control; 4] = [
    Control::Reno,
    Control::FirstReno,
    Control::Cubic,
    Control::Bbr,
];
const STREAMS: u16 = 5;
const PLACED: StreamNumber = StreamNumber::new(1);
const MAX_STEPS: u32 = 2000;
/// Eight addresses of each host.
const MAX_PATHS: usize = 64;
/// Limit of packets in a row, above what any script can cause.
const MAX_AT_ONCE: u32 = 10_000;
/// Time-outs may have to double a few times: some twenty minutes.
const MAX_ROUNDS: u32 = 60_000;
