//! A tunnel between hosts with random link events: no packet may be duplicated, changed, stuck or
//! out of order beyond the rule, and memory stays bounded.

mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use hawser_sched::PathView;
use hawser_sched::packet::PacketPolicy;
use hawser_tunnel::{
    Delivery, PathDelay, Placed, Receiver, ReceiverConfig, Sender, SenderConfig, TunnelPaths,
};
use hawser_types::{ByteCount, ChannelId, Instant, LinkIndex, PathId, Rate};
use hawser_wire::tunnel::TunnelHeader;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use self::watch::{Arrived, Watch};
use super::inner;
use crate::queue::Queue;

/// What must never happen.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Breach {
    /// A packet was handed on twice.
    Twice(u64),
    /// A packet that arrived was never handed on.
    Stuck(u64),
    /// A packet was handed on that was not sent.
    Unknown,
    /// A packet of a flow was handed on before an earlier one that nothing showed to be lost.
    TooSoon(u64),
    /// More waited than is allowed.
    Memory(ByteCount),
}

/// Plays what `seed` draws.
///
/// # Errors
/// The first breach.
///
/// # Panics
/// When time stands still.
pub fn play(seed: u64) -> Result<(), Breach> {
    Story::new(seed).play()
}

struct Story {
    rng: SmallRng,
    now: Instant,
    sender: Sender,
    receiver: Receiver,
    max_held: ByteCount,
    max_waiting: ByteCount,
    links: Vec<Link>,
    flying: Queue<Happening>,
    place: u64,
    flows: Vec<Flow>,
    next_number: u64,
    left: u32,
    /// Every packet that has arrived, by its own number.
    arrived: BTreeMap<u64, Arrived>,
    handed_on: BTreeSet<u64>,
    watch: Watch,
}

/// A flow that is sent.
struct Flow {
    port: u16,
    size: usize,
    every: Duration,
    next_at: Instant,
}

struct Link {
    rate: Rate,
    delay: Duration,
    /// Added to each packet by itself, so that they overtake each other.
    jitter: Duration,
    loss: f64,
    dark: bool,
    /// The sender knows the link.
    is_used: bool,
    free_at: Instant,
    in_flight: ByteCount,
}

enum Happening {
    Arrival {
        link: usize,
        place: u64,
        header: TunnelHeader,
        packet: Bytes,
    },
    Acknowledgement {
        link: usize,
        size: ByteCount,
    },
    /// The sender learns that a packet is lost, or believes it.
    Loss {
        header: TunnelHeader,
        packet: Bytes,
    },
}

impl Story {
    fn new(seed: u64) -> Self {
        let mut rng = SmallRng::seed_from_u64(seed);
        let policies = PacketPolicy::ALL;
        let config = SenderConfig {
            policy: policies[rng.random_range(0..policies.len())],
            max_packets: rng.random_range(20..2000),
            max_bytes: ByteCount::new(rng.random_range(20_000..2_000_000)),
            seed,
            ..SenderConfig::default()
        };
        let bounds = ReceiverConfig {
            max_bytes: ByteCount::new(rng.random_range(10_000..1_000_000)),
            max_packets: rng.random_range(8..1000),
            ..ReceiverConfig::default()
        };
        let links = (0..rng.random_range(1..=4)).map(|_| Link::draw(&mut rng));
        let links = links.collect();
        let flows = (0..rng.random_range(1..=5)).map(|n| Flow::draw(n, &mut rng));
        let flows = flows.collect();
        Self {
            now: START,
            sender: Sender::new(config),
            receiver: Receiver::new(bounds),
            max_held: bounds.max_bytes,
            max_waiting: config.max_bytes,
            links,
            flying: Queue::new(),
            place: 0,
            flows,
            next_number: 0,
            left: rng.random_range(50..600),
            arrived: BTreeMap::new(),
            handed_on: BTreeSet::new(),
            watch: Watch::default(),
            rng,
        }
    }

    fn play(mut self) -> Result<(), Breach> {
        self.tell_paths();
        let mut steps = 0u32;
        while self.left > 0 {
            self.change_something();
            let until = self.now + Duration::from_millis(self.rng.random_range(1..40));
            while self.now < until {
                steps += 1;
                assert!(steps < MAX_STEPS, "time stands still");
                self.send_due();
                self.pump();
                self.step(until)?;
            }
        }
        // What is in flight arrives, and what waits is handed on.
        let end = self.now + Duration::from_secs(30);
        while self.now < end {
            self.pump();
            self.step(end)?;
        }
        let stuck = self.arrived.keys().find(|it| !self.handed_on.contains(it));
        match stuck {
            Some(number) => Err(Breach::Stuck(*number)),
            None => Ok(()),
        }
    }

    fn send_due(&mut self) {
        for flow in &mut self.flows {
            while flow.next_at <= self.now && self.left > 0 {
                flow.next_at += flow.every.mul_f64(self.rng.random_range(0.1..1.9));
                let packet = inner::packet(17, flow.port, self.next_number, flow.size);
                let taken = self.sender.enqueue(self.now, packet);
                taken.expect("its headers are right");
                self.next_number += 1;
                self.left -= 1;
            }
        }
    }

    fn change_something(&mut self) {
        let number = self.rng.random_range(0..self.links.len());
        match self.rng.random_range(0..30) {
            0 => self.links[number].dark = true,
            1..4 => self.links.iter_mut().for_each(|link| link.dark = false),
            4 => {
                self.links[number].is_used = false;
                self.tell_paths();
            }
            5..9 => {
                self.links.iter_mut().for_each(|link| link.is_used = true);
                self.tell_paths();
            }
            9 => {
                let drawn = Link::draw(&mut self.rng);
                let link = &mut self.links[number];
                (link.rate, link.delay, link.loss) = (drawn.rate, drawn.delay, drawn.loss);
            }
            10 => {
                let policies = PacketPolicy::ALL;
                let drawn = policies[self.rng.random_range(0..policies.len())];
                self.sender.set_policy(drawn);
            }
            _ => {}
        }
    }

    /// The receiver's end sees which paths are usable.
    fn tell_paths(&mut self) {
        let used = self.links.iter().enumerate().filter(|(_, it)| it.is_used);
        let delays: Vec<_> = used
            .map(|(number, link)| PathDelay {
                path: PathId::new(number as u32),
                link: LinkIndex::new(number as u32 + 1),
                rtt: link.delay * 2,
                variation: link.jitter / 4,
            })
            .collect();
        self.receiver.set_paths(self.now, &delays);
        let usable = delays.iter().map(|delay| delay.path.value() as usize);
        self.watch.set_usable(self.now, usable.collect());
    }

    fn pump(&mut self) {
        let mut paths = TunnelPaths::default();
        for (number, link) in self.links.iter().enumerate().filter(|(_, it)| it.is_used) {
            // A window of two round trips, and a few packets.
            let window = link.rate * (link.delay * 4) + ByteCount::new(6000);
            paths.push(link.view(number), window - link.in_flight);
        }
        while let Some(placed) = self.sender.poll(self.now, &mut paths) {
            self.carry(placed);
        }
    }

    fn carry(&mut self, placed: Placed) {
        let number = placed.path.value() as usize;
        let size = ByteCount::from(placed.packet.len() + TunnelHeader::MAX_LENGTH);
        self.place += 1;
        let link = &mut self.links[number];
        link.in_flight += size;
        link.free_at = link.free_at.max(self.now) + link.rate.time_for(size).unwrap_or_default();
        let late = link.jitter.mul_f64(self.rng.random());
        let at = link.free_at + link.delay + late;
        let acknowledged = Happening::Acknowledgement { link: number, size };
        self.flying.push(at + link.delay, acknowledged);
        let is_lost = link.dark || self.rng.random_bool(link.loss);
        if is_lost || self.rng.random_bool(MISTAKEN) {
            let noticed = at + link.delay + late;
            // What is not lost may be sent again before it arrives.
            let noticed = if is_lost {
                noticed
            } else {
                self.now + noticed.since(self.now).mul_f64(self.rng.random())
            };
            let loss = Happening::Loss {
                header: placed.header,
                packet: placed.packet.clone(),
            };
            self.flying.push(noticed, loss);
        }
        if !is_lost {
            let arrival = Happening::Arrival {
                link: number,
                place: self.place,
                header: placed.header,
                packet: placed.packet,
            };
            self.flying.push(at, arrival);
        }
    }

    /// Lets time pass until something happens, at `until` at most.
    fn step(&mut self, until: Instant) -> Result<(), Breach> {
        let flows = self.flows.iter().map(|flow| flow.next_at);
        let due = flows.filter(|_| self.left > 0);
        let others = [
            self.flying.next_at(),
            self.receiver.poll_timeout(),
            self.sender.poll_timeout(),
            Some(until),
        ];
        let next = due.chain(others.into_iter().flatten()).min();
        self.now = self.now.max(next.unwrap_or(until));
        while self.flying.next_at().is_some_and(|at| at <= self.now)
            && let Some((_, happening)) = self.flying.pop()
        {
            match happening {
                Happening::Acknowledgement { link, size } => self.links[link].in_flight -= size,
                Happening::Loss { header, packet } => {
                    self.sender.repair(self.now, header, packet);
                }
                Happening::Arrival {
                    link,
                    place,
                    header,
                    packet,
                } => self.arrive(link, place, header, packet)?,
            }
        }
        self.receiver.handle_timeout(self.now);
        self.take()
    }

    fn arrive(
        &mut self,
        link: usize,
        place: u64,
        header: TunnelHeader,
        packet: Bytes,
    ) -> Result<(), Breach> {
        let (_, number) = inner::read(&packet).ok_or(Breach::Unknown)?;
        let arrived = Arrived {
            at: self.now,
            link,
            place,
            header,
        };
        self.arrived.entry(number).or_insert(arrived);
        self.watch.on_arrival(&arrived);
        let path = PathId::new(link as u32);
        self.receiver.handle(self.now, path, place, &header, packet);
        if self.receiver.held() > self.max_held {
            return Err(Breach::Memory(self.receiver.held()));
        }
        if self.sender.waiting() > self.max_waiting {
            return Err(Breach::Memory(self.sender.waiting()));
        }
        self.take()
    }

    fn take(&mut self) -> Result<(), Breach> {
        while let Some(Delivery { packet, late, .. }) = self.receiver.poll_delivery() {
            let (_, number) = inner::read(&packet).ok_or(Breach::Unknown)?;
            let Some(arrived) = self.arrived.get(&number) else {
                return Err(Breach::Unknown);
            };
            if !self.handed_on.insert(number) {
                return Err(Breach::Twice(number));
            }
            let was_squeezed = self.receiver.stats().squeezed > 0;
            if late && !was_squeezed && !self.watch.may_be_late(arrived) {
                return Err(Breach::TooSoon(number));
            }
        }
        Ok(())
    }
}

impl Link {
    fn draw(rng: &mut SmallRng) -> Self {
        let mut sometimes = |chance: f64, most: f64| {
            if rng.random_bool(chance) {
                rng.random_range(0.0..most)
            } else {
                0.0
            }
        };
        let (loss, jitter) = (sometimes(0.5, 0.2), sometimes(0.4, 0.03));
        Self {
            rate: Rate::from_bits_per_second(rng.random_range(200_000..50_000_000)),
            delay: Duration::from_micros(rng.random_range(100..150_000)),
            jitter: Duration::from_secs_f64(jitter),
            loss,
            dark: false,
            is_used: true,
            free_at: START,
            in_flight: ByteCount::ZERO,
        }
    }

    fn view(&self, number: usize) -> PathView {
        PathView {
            channel: ChannelId::new(number as u32),
            link: LinkIndex::new(number as u32),
            rtt: self.delay * 2,
            min_rtt: self.delay * 2,
            rate: self.rate,
            in_flight: self.in_flight,
            ..PathView::default()
        }
    }
}

impl Flow {
    fn draw(number: u16, rng: &mut SmallRng) -> Self {
        Self {
            port: 1000 + number,
            size: if rng.random_bool(0.3) {
                rng.random_range(60..300)
            } else {
                rng.random_range(300..1432)
            },
            every: Duration::from_micros(rng.random_range(50..20_000)),
            next_at: START,
        }
    }
}

const START: Instant = Instant::from_nanos(1_000_000_000_000);
/// Share of the packets that arrive and count as lost.
const MISTAKEN: f64 = 0.01;
const MAX_STEPS: u32 = 1_000_000;
