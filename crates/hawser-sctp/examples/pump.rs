//! Cost of an association's data path without a network: two associations connected directly, bulk
//! data in one direction over links of 10 Gbit/s in total, by a clock that the example advances.
//!
//! `cargo run --release -p hawser-sctp --example pump [MEGABYTES]`
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros,
    clippy::unwrap_used,
    reason = "it measures the code from outside"
)]

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant as Clock};

use bytes::Bytes;
use hawser_sctp::{
    Association, AssociationConfig, AssociationId, Checksum, Control, Endpoint, EndpointConfig,
    Handled, Local, Message, Route, Transmit,
};
use hawser_types::{Instant, LinkIndex};
use hawser_wire::sctp::StreamNumber;

fn main() {
    let megabytes = std::env::args().nth(1).and_then(|text| text.parse().ok());
    let bytes = megabytes.unwrap_or(100) * 1_000_000;
    println!(
        "paths checksum control    Gbit/s  ns/packet: sender receiver   packets (best of {RUNS})"
    );
    for paths in [1, 4] {
        for checksum in [Checksum::Crc32c, Checksum::LowerLayer] {
            for control in [Control::Bbr, Control::Reno] {
                let runs = (0..RUNS).map(|_| run(paths, checksum, control, bytes));
                let best = runs.min_by_key(|it| it.sender + it.receiver);
                let Outcome {
                    packets,
                    sender,
                    receiver,
                } = best.unwrap();
                let gigabits = bytes as f64 * 8.0 / (sender + receiver).as_nanos() as f64;
                let each = |time: Duration| time.as_nanos() as f64 / packets as f64;
                println!(
                    "{paths:>5} {:<8} {:<8} {gigabits:>9.2} {:>18.0} {:>8.0} {packets:>15}",
                    format!("{checksum:?}"),
                    format!("{control:?}"),
                    each(sender),
                    each(receiver),
                );
            }
        }
    }
}

/// Cost of carrying all data.
struct Outcome {
    /// Packets from the sender.
    packets: u64,
    sender: Duration,
    receiver: Duration,
}

/// One end, and the packets in flight to it.
struct End {
    endpoint: Endpoint,
    association: Option<(AssociationId, Association)>,
    replies: Vec<Transmit>,
    /// One line for each path.
    arriving: Vec<Line>,
    sent: u64,
}

/// One direction of a link.
#[derive(Default)]
struct Line {
    in_flight: VecDeque<(Instant, Transmit)>,
    free_at: Instant,
}

fn run(paths: u8, checksum: Checksum, control: Control, bytes: u64) -> Outcome {
    let config = AssociationConfig {
        checksum,
        control,
        ..AssociationConfig::default()
    };
    let mut now = Instant::from_nanos(1_000_000_000);
    let links: Vec<_> = (0..paths).map(|link| place(link, 1)).collect();
    let mut a = End::new(&config, &links, paths);
    let mut b = End::new(&config, &[SERVER], paths);
    let remote = SocketAddr::new(SERVER.address, PORT);
    let begun = a.endpoint.connect(now, config, &links, &[remote]);
    a.association = Some(begun.unwrap());
    let message = Message::new(Bytes::from(vec![7; MESSAGE]));
    let (mut taken, mut received) = (0, 0);
    let (mut sender, mut receiver) = (Duration::ZERO, Duration::ZERO);
    while received < bytes {
        now += STEP;
        let began = Clock::now();
        a.handle_arrivals(now);
        if let Some((_, association)) = &mut a.association {
            while taken < bytes
                && association
                    .send(now, StreamNumber::new(1), message.clone())
                    .is_ok()
            {
                taken += MESSAGE as u64;
            }
        }
        a.transmit(now, &mut b);
        let between = Clock::now();
        b.handle_arrivals(now);
        if let Some((_, association)) = &mut b.association {
            while let Some(message) = association.receive() {
                received += message.length() as u64;
            }
        }
        b.transmit(now, &mut a);
        sender += between - began;
        receiver += between.elapsed();
    }
    Outcome {
        packets: a.sent,
        sender,
        receiver,
    }
}

impl End {
    fn new(config: &AssociationConfig, locals: &[Local], paths: u8) -> Self {
        let config = EndpointConfig::new(config.clone(), locals);
        Self {
            endpoint: Endpoint::new(config, SECRET, locals.len() as u64),
            association: None,
            replies: Vec::new(),
            arriving: (0..paths).map(|_| Line::default()).collect(),
            sent: 0,
        }
    }

    /// Handles all packets that arrived since the last step, link by link, as sockets are read.
    fn handle_arrivals(&mut self, now: Instant) {
        for line in &mut self.arriving {
            while line.in_flight.front().is_some_and(|(at, _)| *at <= now) {
                let (
                    _,
                    Transmit {
                        route, datagram, ..
                    },
                ) = line.in_flight.pop_front().unwrap();
                match self.endpoint.handle_datagram(now, route, datagram) {
                    Handled::Ignored(why) => panic!("{why:?}"),
                    Handled::Reply(transmit) => self.replies.push(transmit),
                    Handled::Accepted(id, association) => {
                        self.association = Some((id, *association));
                    }
                    Handled::For(_, packet) => {
                        let (_, association) = self.association.as_mut().unwrap();
                        association.handle_packet(now, route, &packet);
                    }
                }
            }
        }
    }

    fn transmit(&mut self, now: Instant, to: &mut Self) {
        for reply in self.replies.drain(..) {
            to.take(now, reply);
        }
        let Some((_, association)) = &mut self.association else {
            return;
        };
        if association.poll_timeout().is_some_and(|at| at <= now) {
            association.handle_timeout(now);
        }
        while let Some(transmit) = association.poll_transmit(now) {
            self.sent += 1;
            to.take(now, transmit);
        }
        while association.poll_event().is_some() {}
        let next = association.poll_timeout();
        assert!(next.is_some(), "an association always has a timer");
    }

    /// Takes a datagram from the other end; a full queue drops it.
    fn take(&mut self, now: Instant, transmit: Transmit) {
        let Transmit {
            route,
            datagram,
            may_fragment,
        } = transmit;
        let paths = self.arriving.len() as u64;
        // Links belong to the end that begins the association.
        let (local, from) = if route.local == SERVER {
            (link_to(route.remote.ip()), SERVER.address)
        } else {
            (SERVER, route.local.address)
        };
        let link = if local == SERVER { route.local } else { local }.link;
        let line = &mut self.arriving[link.value() as usize - 1];
        let begins = line.free_at.max(now);
        if begins.since(now) > QUEUE {
            return;
        }
        line.free_at = begins + Duration::from_nanos(datagram.len() as u64 * 8 * paths / GIGABITS);
        let remote = SocketAddr::new(from, PORT);
        let transmit = Transmit {
            route: Route { local, remote },
            datagram,
            may_fragment,
        };
        line.in_flight.push_back((line.free_at + DELAY, transmit));
    }
}

/// Returns the local end of a link at a host.
fn place(link: u8, host: u8) -> Local {
    Local {
        link: LinkIndex::new(u32::from(link) + 1),
        address: Ipv4Addr::new(10, 0, link, host).into(),
    }
}

fn link_to(address: IpAddr) -> Local {
    match address {
        IpAddr::V4(address) => place(address.octets()[2], 1),
        IpAddr::V6(_) => unreachable!("there is only IPv4"),
    }
}

const SERVER: Local = Local {
    link: LinkIndex::new(1),
    address: IpAddr::V4(Ipv4Addr::new(10, 0, 200, 2)),
};
const RUNS: u32 = 5;
/// Interval between reads of the sockets.
const STEP: Duration = Duration::from_micros(50);
/// One-way delay.
const DELAY: Duration = Duration::from_micros(500);
/// Maximum length of a link's queue.
const QUEUE: Duration = Duration::from_millis(2);
/// Rate of all links together, in bits per nanosecond.
const GIGABITS: u64 = 10;
const MESSAGE: usize = 65_536;
const SECRET: [u8; 32] = [7; 32];
const PORT: u16 = 9899;
