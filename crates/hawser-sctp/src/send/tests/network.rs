//! Links that lose and reorder under virtual time, and a peer that acknowledges.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::net::SocketAddr;

use hawser_wire::sctp::{ChecksumRule, Chunk, CommonHeader, DataOrder, ForwardTsn, Packet};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;

/// Both directions of a path.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) delay: Duration,
    /// Maximum random delay of each packet: packets overtake each other.
    pub(super) jitter: Duration,
    /// Share of packets lost in either direction, from 0 to 1.
    pub(super) loss: f64,
    /// Rate in bytes per second.
    pub(super) rate: u64,
    /// Period in which nothing passes.
    pub(super) outage: Option<(Duration, Duration)>,
}

/// A sender, links, and a peer.
pub(super) struct Network {
    pub(super) bench: Bench,
    links: Vec<Link>,
    /// Time when each link has sent its queue.
    free: Vec<Instant>,
    began: Instant,
    flying: BinaryHeap<Reverse<(Instant, u64, usize)>>,
    cargo: BTreeMap<u64, Cargo>,
    count: u64,
    rng: StdRng,
    was_over: bool,
    pub(super) peer: Peer,
    /// Bytes that left, headers included.
    pub(super) sent: u64,
}

enum Cargo {
    Data(Vec<Data>),
    Forward(ForwardTsn),
    Sack(Sack),
    Heartbeat(Bytes),
    HeartbeatAck(Bytes),
}

/// Chunks that have arrived, by number.
#[derive(Default)]
pub(super) struct Peer {
    pub(super) chunks: BTreeMap<u64, Data>,
    next: u64,
    beyond: BTreeSet<u64>,
    duplicates: Vec<Tsn>,
    pub(super) window: u32,
}

/// Returns the DATA chunks of a packet.
pub(super) fn chunks(writer: PacketWriter, framing: Framing) -> Vec<Data> {
    let datagram = writer.finish(ChecksumRule::Zero);
    let header = CommonHeader {
        source_port: 9,
        destination_port: 9,
        tag: VerificationTag::new(1),
    };
    let packet = match framing {
        Framing::Whole => Packet::decode(datagram, ChecksumRule::Zero),
        Framing::Compact => Packet::decode_sealed(datagram, Some(header)),
    };
    let packet = packet.unwrap();
    let data = packet.chunks().map(|chunk| match chunk.unwrap() {
        Chunk::Data(data) => data,
        other => panic!("{other:?}"),
    });
    data.collect()
}

impl Network {
    pub(super) fn new(
        links: Vec<Link>,
        config: &AssociationConfig,
        window: u32,
        seed: u64,
    ) -> Self {
        let mut negotiated = negotiated(config);
        negotiated.peer_window = window;
        let bench = Bench::with_negotiated(links.len() as u32, config, &negotiated);
        Self {
            free: vec![bench.now; links.len()],
            began: bench.now,
            bench,
            links,
            flying: BinaryHeap::new(),
            cargo: BTreeMap::new(),
            count: 0,
            rng: StdRng::seed_from_u64(seed),
            was_over: false,
            peer: Peer {
                window,
                ..Peer::default()
            },
            sent: 0,
        }
    }

    /// Runs until everything is acknowledged; returns the time.
    pub(super) fn run(&mut self, messages: &mut dyn Iterator<Item = (u16, Message)>) -> Duration {
        let mut messages = messages.peekable();
        for _ in 0..MAX_STEPS {
            while let Some((stream, message)) = messages.peek().cloned() {
                let stream = StreamNumber::new(stream);
                if self
                    .bench
                    .outbound
                    .send(self.bench.now, stream, message)
                    .is_err()
                {
                    break;
                }
                messages.next();
            }
            self.transmit();
            if messages.peek().is_none() && self.bench.outbound.is_settled() {
                return self.bench.now.since(self.began);
            }
            self.step();
        }
        panic!(
            "not done after {MAX_STEPS} steps: {:?}",
            self.bench.outbound
        );
    }

    fn transmit(&mut self) {
        while let Some(packet) = self.bench.packet() {
            self.fly(packet.path.value() as usize, Cargo::Data(packet.chunks));
        }
        if let Some(forward) = self.bench.outbound.poll_forward_tsn(self.bench.now) {
            self.fly(0, Cargo::Forward(forward));
        }
        while let Some(heartbeat) = self.bench.paths.poll_heartbeat(self.bench.now) {
            let link = heartbeat.path.value() as usize;
            self.fly(link, Cargo::Heartbeat(heartbeat.info));
        }
    }

    /// Handles the next event.
    fn step(&mut self) {
        let timer = self.bench.outbound.poll_timeout(&self.bench.paths);
        // A timer that became shorter may have expired; its action is then done.
        let is_over = timer.is_some_and(|timer| timer <= self.bench.now);
        assert!(
            !(is_over && self.was_over),
            "it asks to be woken in the past"
        );
        self.was_over = is_over;
        let arrival = self.flying.peek().map(|Reverse((at, ..))| *at);
        let heartbeat = self.bench.paths.poll_timeout();
        let at = [timer, arrival, heartbeat]
            .into_iter()
            .flatten()
            .min()
            .unwrap();
        self.bench.now = at;
        self.bench
            .outbound
            .handle_timeout(at, &mut self.bench.paths);
        self.bench.paths.handle_timeout(at);
        if !is_over
            && arrival == Some(at)
            && let Some(Reverse((_, number, link))) = self.flying.pop()
            && let Some(cargo) = self.cargo.remove(&number)
        {
            self.arrive(link, cargo);
        }
    }

    fn is_cut(&self, link: usize) -> bool {
        let since = self.bench.now.since(self.began);
        let outage = self.links[link].outage;
        outage.is_some_and(|(from, to)| (from..to).contains(&since))
    }

    fn fly(&mut self, link: usize, cargo: Cargo) {
        let size: usize = match &cargo {
            Cargo::Data(data) => data.iter().map(|data| data.payload.len() + 20).sum(),
            _ => 40,
        };
        let forth = !matches!(cargo, Cargo::Sack(_) | Cargo::HeartbeatAck(_));
        let facts = &self.links[link];
        let mut at = self.bench.now;
        if forth {
            self.sent += size as u64;
            let busy = Duration::from_nanos(size as u64 * 1_000_000_000 / facts.rate);
            at = at.max(self.free[link]);
            if at.since(self.bench.now) > QUEUE {
                return;
            }
            at += busy;
            self.free[link] = at;
        }
        at += facts.delay + facts.jitter.mul_f64(self.rng.random());
        if self.rng.random::<f64>() < facts.loss || self.is_cut(link) {
            return;
        }
        self.count += 1;
        self.flying.push(Reverse((at, self.count, link)));
        self.cargo.insert(self.count, cargo);
    }

    fn arrive(&mut self, link: usize, cargo: Cargo) {
        match cargo {
            Cargo::Data(chunks) => {
                chunks.into_iter().for_each(|data| self.peer.take(data));
                self.fly(link, Cargo::Sack(self.peer.sack()));
                self.peer.duplicates.clear();
            }
            Cargo::Forward(forward) => {
                self.peer
                    .forward(u64::from(forward.cumulative.since(tsn(0))) + 1);
                self.fly(link, Cargo::Sack(self.peer.sack()));
            }
            Cargo::Sack(sack) => {
                self.bench.read(&sack).unwrap();
            }
            Cargo::Heartbeat(info) => self.fly(link, Cargo::HeartbeatAck(info)),
            Cargo::HeartbeatAck(info) => {
                let from = SocketAddr::from(([192, 0, 2, 1], 9899));
                self.bench
                    .paths
                    .on_heartbeat_ack(self.bench.now, from, &info);
            }
        }
    }
}

impl Peer {
    fn take(&mut self, data: Data) {
        let chunk = u64::from(data.tsn.since(tsn(0)));
        if chunk < self.next || !self.beyond.insert(chunk) {
            self.duplicates.push(data.tsn);
            return;
        }
        self.chunks.insert(chunk, data);
        self.slide();
    }

    fn forward(&mut self, next: u64) {
        self.next = self.next.max(next);
        self.beyond = self.beyond.split_off(&self.next);
        self.slide();
    }

    fn slide(&mut self) {
        while self.beyond.remove(&self.next) {
            self.next += 1;
        }
    }

    fn sack(&self) -> Sack {
        let mut gaps: Vec<GapBlock> = Vec::new();
        for chunk in &self.beyond {
            let distance = u16::try_from(chunk + 1 - self.next).unwrap();
            match gaps.last_mut() {
                Some(block) if block.last + 1 == distance => block.last = distance,
                _ => gaps.push(GapBlock {
                    first: distance,
                    last: distance,
                }),
            }
        }
        let held: usize = self
            .beyond
            .iter()
            .map(|chunk| self.chunks[chunk].payload.len())
            .sum();
        Sack {
            cumulative: tsn(self.next.wrapping_sub(1)),
            window: self.window.saturating_sub(held as u32),
            gaps,
            duplicates: self.duplicates.clone(),
        }
    }

    /// Returns the assembled messages of each stream in order.
    pub(super) fn messages(&self) -> BTreeMap<(u16, bool, u32), Vec<u8>> {
        let mut messages: BTreeMap<_, Vec<u8>> = BTreeMap::new();
        let mut parts: BTreeMap<_, u32> = BTreeMap::new();
        let mut plain = (0, 0);
        for data in self.chunks.values() {
            let number = match data.order {
                DataOrder::Interleaved { message, fragment } => {
                    let key = (data.stream.value(), data.unordered, message);
                    let next = parts.entry(key).or_default();
                    assert_eq!(fragment, *next, "parts are sent in order");
                    *next += 1;
                    message
                }
                DataOrder::Sequence(sequence) => {
                    if data.first {
                        plain = (data.stream.value(), sequence);
                    }
                    assert_eq!(
                        plain,
                        (data.stream.value(), sequence),
                        "parts are consecutive"
                    );
                    u32::from(sequence)
                }
            };
            let message = messages
                .entry((data.stream.value(), data.unordered, number))
                .or_default();
            assert_eq!(data.first, message.is_empty());
            message.extend_from_slice(&data.payload);
        }
        messages
    }
}

/// Maximum length of a link's queue.
const QUEUE: Duration = Duration::from_millis(200);
const MAX_STEPS: usize = 200_000;
