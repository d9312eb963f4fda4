//! A packet model of a link and of senders that share it, for the tests of congestion controls.

use std::collections::VecDeque;
use std::time::Duration;

use hawser_types::{ByteCount, Instant, Rate};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::{Acknowledged, CongestionControl, Lost, RateSample};

/// A link with a queue that drops what does not fit.
pub(super) struct Link {
    pub(super) rate: Rate,
    /// Round-trip time without a queue.
    pub(super) rtt: Duration,
    pub(super) queue: ByteCount,
    /// Share of packets lost at random.
    pub(super) loss: f64,
    /// The link is cut: everything is lost.
    pub(super) cut: bool,
    /// Acknowledgements wait for the next multiple of this, as behind radio links with time slots.
    pub(super) turns: Duration,
    /// Maximum random delay of acknowledgements; they stay in order.
    pub(super) jitter: Duration,
    last_back: Instant,
    busy_until: Instant,
    rng: SmallRng,
}

impl Link {
    /// Creates a link with a queue of one bandwidth-delay product.
    pub(super) fn new(mbit: u64, rtt: Duration) -> Self {
        let rate = Rate::from_bits_per_second(mbit * 1_000_000);
        Self {
            rate,
            rtt,
            queue: rate * rtt,
            loss: 0.0,
            cut: false,
            turns: Duration::ZERO,
            jitter: Duration::ZERO,
            last_back: Instant::ZERO,
            busy_until: Instant::ZERO,
            rng: SmallRng::seed_from_u64(11),
        }
    }

    /// Returns when the acknowledgement of a packet arrives; `None` when the packet is lost.
    fn carry(&mut self, now: Instant, size: ByteCount) -> Option<Instant> {
        if self.cut || self.rng.random_bool(self.loss) {
            return None;
        }
        let waiting = self.rate * self.busy_until.since(now);
        if waiting + size > self.queue {
            return None;
        }
        let time = self.rate.time_for(size).unwrap();
        self.busy_until = self.busy_until.max(now) + time;
        let jitter = match self.jitter {
            Duration::ZERO => Duration::ZERO,
            jitter => jitter.mul_f64(self.rng.random()),
        };
        self.last_back = self.last_back.max(self.busy_until + self.rtt + jitter);
        let back = self.last_back.as_nanos();
        let turns = (self.turns.as_nanos() as u64).max(1);
        Some(Instant::from_nanos(back.next_multiple_of(turns)))
    }
}

/// A sender with unlimited data, or with a limited rate of it.
pub(super) struct Sender {
    pub(super) control: Box<dyn CongestionControl>,
    /// Data that the application produces; `None` for unlimited data.
    pub(super) demand: Option<Rate>,
    /// Data that the application has in flight at most, by a window of its own.
    pub(super) held: Option<ByteCount>,
    /// Start of sending.
    pub(super) begins: Instant,
    sent: ByteCount,
    packets: VecDeque<Packet>,
    flight: ByteCount,
    may_send: Instant,
    smoothed: Duration,
    last_heard: Instant,
    backoffs: u32,
    delivered: ByteCount,
    delivered_at: Instant,
    first_sent: Instant,
    /// Delivered bytes up to which samples are limited by the application.
    limited_until: ByteCount,
    pub(super) max_in_flight: ByteCount,
}

struct Packet {
    number: u64,
    sent: Instant,
    back: Option<Instant>,
    delivered: ByteCount,
    delivered_at: Instant,
    first_sent: Instant,
    limited: bool,
    settled: bool,
}

impl Sender {
    pub(super) fn new(control: Box<dyn CongestionControl>) -> Self {
        Self {
            control,
            demand: None,
            held: None,
            begins: Instant::ZERO,
            sent: ByteCount::ZERO,
            packets: VecDeque::new(),
            flight: ByteCount::ZERO,
            may_send: Instant::ZERO,
            smoothed: Duration::ZERO,
            last_heard: Instant::ZERO,
            backoffs: 0,
            delivered: ByteCount::ZERO,
            delivered_at: Instant::ZERO,
            first_sent: Instant::ZERO,
            limited_until: ByteCount::ZERO,
            max_in_flight: ByteCount::ZERO,
        }
    }

    pub(super) fn delivered(&self) -> ByteCount {
        self.delivered
    }

    fn send(&mut self, now: Instant, link: &mut Link) {
        while now >= self.begins && self.may_send <= now {
            if self.flight >= self.control.window() {
                return;
            }
            let allowed = self.demand.map(|rate| rate * now.since(self.begins));
            let is_held = self.held.is_some_and(|held| self.flight + PACKET > held);
            if is_held || allowed.is_some_and(|allowed| self.sent + PACKET > allowed) {
                self.limited_until = self.delivered + self.flight + PACKET;
                return;
            }
            if self.flight == ByteCount::ZERO {
                (self.first_sent, self.delivered_at) = (now, now);
                self.last_heard = now;
            }
            self.control.on_sent(now, PACKET, self.flight);
            self.flight += PACKET;
            self.sent += PACKET;
            self.max_in_flight = self.max_in_flight.max(self.flight);
            let number = self.packets.back().map_or(0, |packet| packet.number + 1);
            self.packets.push_back(Packet {
                number,
                sent: now,
                back: link.carry(now, PACKET),
                delivered: self.delivered,
                delivered_at: self.delivered_at,
                first_sent: self.first_sent,
                limited: self.delivered < self.limited_until,
                settled: false,
            });
            if let Some(pause) = self.control.pacing().and_then(|rate| rate.time_for(PACKET)) {
                self.may_send = self.may_send.max(now - PACING_SLACK) + pause;
            }
        }
    }

    fn receive(&mut self, now: Instant) {
        let due = |packet: &Packet| packet.back.is_some_and(|back| back <= now);
        let places: Vec<usize> = (0..self.packets.len())
            .filter(|place| {
                let packet = &self.packets[*place];
                !packet.settled && due(packet)
            })
            .collect();
        if !places.is_empty() {
            self.acknowledge(now, &places);
        }
        let rto = self.rto();
        if self.flight > ByteCount::ZERO && now.since(self.last_heard) >= rto {
            self.backoffs = (self.backoffs + 1).min(8);
            self.last_heard = now;
            self.lose(ByteCount::MAX);
            self.control.on_timeout(now);
        }
        while self.packets.front().is_some_and(|p| p.settled) && self.packets.len() > 1 {
            self.packets.pop_front();
        }
    }

    /// Handles one acknowledgement of all these packets.
    fn acknowledge(&mut self, now: Instant, places: &[usize]) {
        let flight_before = self.flight;
        let all: ByteCount = places.iter().map(|_| PACKET).sum();
        self.last_heard = now;
        self.backoffs = 0;
        self.flight -= all;
        self.delivered += all;
        self.delivered_at = now;
        for place in places {
            self.packets[*place].settled = true;
        }
        let packet = &self.packets[places[places.len() - 1]];
        self.first_sent = packet.sent;
        let (number, sent) = (packet.number, packet.sent);
        let rtt = now.since(sent);
        let interval = now
            .since(packet.delivered_at)
            .max(sent.since(packet.first_sent));
        let sample = RateSample {
            rate: Rate::over(self.delivered - packet.delivered, interval),
            delivered: self.delivered,
            delivered_before: packet.delivered,
            application_limited: packet.limited,
        };
        self.smoothed = match self.smoothed {
            Duration::ZERO => rtt,
            smoothed => smoothed * 7 / 8 + rtt / 8,
        };
        let (bytes, newest_sent) = self.lose_before(number);
        if bytes > ByteCount::ZERO {
            self.control.on_lost(&Lost {
                now,
                bytes,
                newest_sent,
            });
        }
        self.control.on_acknowledged(&Acknowledged {
            now,
            bytes: all,
            flight_before,
            flight: self.flight,
            rtt: Some(rtt),
            smoothed_rtt: self.smoothed,
            newest_sent: sent,
            may_grow: true,
            sample: Some(sample),
        });
    }

    /// Takes for lost every packet that three later ones have overtaken.
    fn lose_before(&mut self, number: u64) -> (ByteCount, Instant) {
        let (mut bytes, mut newest) = (ByteCount::ZERO, Instant::ZERO);
        let before = self.packets.iter_mut();
        for packet in before.take_while(|packet| packet.number + 3 <= number) {
            if !packet.settled {
                packet.settled = true;
                bytes += PACKET;
                newest = packet.sent;
            }
        }
        self.lose(bytes);
        (bytes, newest)
    }

    fn lose(&mut self, bytes: ByteCount) {
        self.flight -= bytes;
        if bytes == ByteCount::MAX {
            for packet in &mut self.packets {
                packet.settled = true;
            }
        }
    }

    /// Returns when something happens next.
    fn next(&self, now: Instant) -> Instant {
        let back = self.packets.iter().filter(|packet| !packet.settled);
        let back = back.filter_map(|packet| packet.back).next();
        let timeout = self.last_heard + self.rto();
        let timeout = Some(timeout).filter(|_| self.flight > ByteCount::ZERO);
        let send = if self.demand.is_some() || self.held.is_some() {
            Some(now + Duration::from_millis(1))
        } else {
            Some(self.may_send.max(self.begins)).filter(|_| self.flight < self.control.window())
        };
        let next = [back, timeout, send].into_iter().flatten().min();
        next.unwrap_or(now)
    }

    fn rto(&self) -> Duration {
        let rto = match self.smoothed {
            Duration::ZERO => Duration::from_secs(1),
            smoothed => (smoothed * 2).max(Duration::from_millis(200)),
        };
        rto * (1 << self.backoffs)
    }
}

/// Lets the senders share the link until `end`.
pub(super) fn run(link: &mut Link, senders: &mut [Sender], from: Instant, end: Instant) {
    let mut now = from;
    while now < end {
        for sender in senders.iter_mut() {
            sender.receive(now);
        }
        for sender in senders.iter_mut() {
            sender.send(now, link);
        }
        let next = senders.iter().map(|sender| sender.next(now)).min();
        now = next.unwrap_or(end).max(now + STEP);
    }
}

/// Returns each sender's share of the link's rate between `from` and `end`.
pub(super) fn share(link: &mut Link, senders: &mut [Sender], from: u64, end: u64) -> Vec<f64> {
    let second = |n: u64| Instant::ZERO + Duration::from_secs(n);
    let before: Vec<ByteCount> = senders.iter().map(Sender::delivered).collect();
    run(link, senders, second(from), second(end));
    let most = link.rate * Duration::from_secs(end - from);
    std::iter::zip(senders.iter(), before)
        .map(|(sender, before)| {
            (sender.delivered() - before).as_u64() as f64 / most.as_u64() as f64
        })
        .collect()
}

pub(super) const PACKET: ByteCount = ByteCount::new(1200);
/// Resolution of timers.
const STEP: Duration = Duration::from_micros(100);
/// Delay that pacing makes up for, as with a timer that wakes late.
const PACING_SLACK: Duration = Duration::from_millis(1);
