//! Messages with a deadline, on a network that loses, duplicates and reorders. Messages without a
//! deadline arrive; all others arrive at most once, in order and whole or not at all; and no stream
//! stops.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use hawser_sctp::{
    Association, AssociationConfig, AssociationId, End, Endpoint, EndpointConfig, Event, Handled,
    Local, Message, Reliability, Route, SendError, Transmit,
};
use hawser_types::{ByteCount, Instant, LinkIndex};
use hawser_wire::sctp::StreamNumber;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

#[test]
fn messages_that_are_given_up_harm_no_others() {
    for seed in 0..SEEDS {
        let run = std::panic::catch_unwind(|| Run::new(seed).play());
        assert!(run.is_ok(), "seed {seed} failed");
    }
}

/// A sender, number 0, and a receiver.
struct Run {
    hosts: [Host; 2],
    now: Instant,
    /// Packets in flight: arrival time, number and receiver.
    flying: BinaryHeap<Reverse<(Instant, usize, usize)>>,
    datagrams: Vec<Bytes>,
    rng: StdRng,
    /// Share of packets lost, from 0 to 1.
    loss: f64,
    messages: Vec<Sent>,
    /// Data read of each message.
    read: BTreeMap<usize, Vec<u8>>,
    /// Messages in the order of their ends; `false`: the rest was abandoned.
    ended: Vec<(usize, bool)>,
}

struct Host {
    endpoint: Endpoint,
    association: Option<(AssociationId, Association)>,
}

struct Sent {
    stream: u16,
    unordered: bool,
    length: usize,
    is_limited: bool,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let interleaving = rng.random();
        let buffers = [64 * 1024, 1 << 20];
        let config = AssociationConfig {
            interleaving,
            receive_buffer: ByteCount::new(buffers[rng.random_range(0..2)]),
            send_buffer: ByteCount::new(buffers[rng.random_range(0..2)]),
            ..AssociationConfig::default()
        };
        let host = |number: u8| Host {
            endpoint: Endpoint::new(
                EndpointConfig::new(config.clone(), &[local(number)]),
                [number; 32],
                seed,
            ),
            association: None,
        };
        let mut hosts = [host(0), host(1)];
        let remote = [route(0).remote];
        let begun = hosts[0]
            .endpoint
            .connect(Instant::ZERO, config.clone(), &[local(0)], &remote);
        hosts[0].association = Some(begun.unwrap());
        Self {
            hosts,
            now: Instant::ZERO,
            flying: BinaryHeap::new(),
            datagrams: Vec::new(),
            loss: rng.random_range(0.0..0.3),
            rng,
            messages: Vec::new(),
            read: BTreeMap::new(),
            ended: Vec::new(),
        }
    }

    fn play(mut self) {
        for _ in 0..self.rng.random_range(10..200) {
            let message = self.draw_message();
            self.send(message);
            let pause = self.rng.random_range(0..30);
            self.pass(Duration::from_millis(pause));
        }
        // Each stream has to continue.
        for stream in 0..STREAMS {
            self.send(Sent {
                stream,
                unordered: false,
                length: 100,
                is_limited: false,
            });
        }
        self.loss = 0.0;
        self.pass(Duration::from_secs(300));
        let sender = self.hosts[0].association.as_ref().unwrap();
        assert!(sender.1.is_settled(), "it stands still");
        self.conclude();
    }

    fn draw_message(&mut self) -> Sent {
        let most = [100, 5000, 60_000][self.rng.random_range(0..3)];
        Sent {
            stream: self.rng.random_range(0..STREAMS),
            unordered: self.rng.random(),
            length: self.rng.random_range(1..=most),
            is_limited: self.rng.random(),
        }
    }

    /// Sends a message when there is room.
    fn send(&mut self, sent: Sent) {
        let index = self.messages.len();
        let reliability = match (sent.is_limited, self.rng.random()) {
            (false, _) => Reliability::Full,
            (true, true) => Reliability::Retransmissions(self.rng.random_range(0..3)),
            (true, false) => {
                let span = self.rng.random_range(0..400);
                Reliability::Lifetime(Duration::from_millis(span))
            }
        };
        let message = Message {
            payload: vec![index as u8; sent.length].into(),
            protocol: index as u32,
            unordered: sent.unordered,
            reliability,
            twice: self.rng.random_bool(0.2),
            owner_stream: None,
        };
        let stream = StreamNumber::new(sent.stream);
        self.messages.push(sent);
        for _ in 0..10_000 {
            let (now, sender) = (self.now, &mut self.hosts[0].association);
            let sender = &mut sender.as_mut().expect("it lives").1;
            match sender.send(now, stream, message.clone()) {
                Ok(()) => return,
                Err(SendError::Full) => self.pass(Duration::from_millis(20)),
                Err(error) => panic!("{error}"),
            }
        }
        panic!("there is never room");
    }

    /// Advances the time.
    fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        loop {
            self.drain();
            let arrival = self.flying.peek().map(|Reverse((at, ..))| *at);
            let associations = self.hosts.iter().filter_map(|it| it.association.as_ref());
            let timer = associations.filter_map(|(_, it)| it.poll_timeout()).min();
            let next = [arrival, timer].into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next <= end) else {
                break;
            };
            self.now = self.now.max(next);
            while let Some(Reverse((at, packet, to))) = self.flying.peek().copied() {
                if at > self.now {
                    break;
                }
                self.flying.pop();
                let datagram = self.datagrams[packet].clone();
                let reply = self.hosts[to].handle(self.now, to as u8, datagram);
                self.launch(1 - to, reply);
            }
            for (_, association) in self.hosts.iter_mut().flat_map(|it| &mut it.association) {
                if association.poll_timeout().is_some_and(|at| at <= self.now) {
                    association.handle_timeout(self.now);
                }
            }
        }
        self.now = end;
    }

    /// Drains events and messages of the associations.
    fn drain(&mut self) {
        for to in [1, 0] {
            let Some((_, association)) = &mut self.hosts[1 - to].association else {
                continue;
            };
            while let Some(event) = association.poll_event() {
                assert!(!matches!(event, Event::Closed(_)), "{event:?}");
            }
            while to == 0
                && let Some(received) = association.receive()
            {
                let index = received.protocol as usize;
                let sent = &self.messages[index];
                assert_eq!(received.stream.value(), sent.stream);
                assert_eq!(received.unordered, sent.unordered);
                let read = self.read.entry(index).or_default();
                read.extend_from_slice(&received.payload());
                if received.end != End::More {
                    self.ended.push((index, received.end == End::Whole));
                }
            }
            let now = self.now;
            let sent: Vec<_> = std::iter::from_fn(|| association.poll_transmit(now)).collect();
            for transmit in sent {
                self.launch(to, Some(transmit));
            }
        }
    }

    /// Sends a packet, which arrives once, twice or never.
    fn launch(&mut self, to: usize, transmit: Option<Transmit>) {
        let Some(transmit) = transmit else {
            return;
        };
        let times = if self.rng.random_bool(self.loss) {
            0
        } else {
            1 + usize::from(self.rng.random_bool(0.03))
        };
        for _ in 0..times {
            let delay = Duration::from_micros(self.rng.random_range(20_000..30_000));
            let name = self.datagrams.len();
            self.datagrams.push(transmit.datagram.clone());
            self.flying.push(Reverse((self.now + delay, name, to)));
        }
    }

    fn conclude(&self) {
        let (mut seen, mut last) = (BTreeSet::new(), BTreeMap::new());
        for (index, is_whole) in &self.ended {
            assert!(seen.insert(*index), "message {index} ended twice");
            let sent = &self.messages[*index];
            if !sent.unordered {
                let before = last.insert(sent.stream, *index);
                assert!(before.is_none_or(|before| before < *index), "out of order");
            }
            assert!(*is_whole || sent.is_limited);
            let read = &self.read[index];
            assert!(read.iter().all(|byte| *byte == *index as u8));
            assert_eq!(read.len() == sent.length, *is_whole);
        }
        for (index, sent) in self.messages.iter().enumerate() {
            assert!(seen.contains(&index) || sent.is_limited, "{index} is lost");
        }
        for index in self.read.keys() {
            assert!(seen.contains(index), "message {index} never ended");
        }
    }
}

impl Host {
    fn handle(&mut self, now: Instant, number: u8, datagram: Bytes) -> Option<Transmit> {
        match self.endpoint.handle_datagram(now, route(number), datagram) {
            Handled::Reply(transmit) => return Some(transmit),
            Handled::Ignored(_) => {}
            Handled::Accepted(id, association) => self.association = Some((id, *association)),
            Handled::For(_, packet) => {
                if let Some((_, association)) = &mut self.association {
                    association.handle_packet(now, route(number), &packet);
                }
            }
        }
        None
    }
}

fn address(number: u8) -> IpAddr {
    Ipv4Addr::new(192, 0, 2, 1 + number).into()
}

fn local(number: u8) -> Local {
    Local {
        link: LinkIndex::new(1),
        address: address(number),
    }
}

/// Returns the route from one host to the other.
fn route(number: u8) -> Route {
    Route {
        local: local(number),
        remote: SocketAddr::new(address(1 - number), 9899),
    }
}

const SEEDS: u64 = 30;
const STREAMS: u16 = 3;
