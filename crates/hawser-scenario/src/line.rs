//! One direction of a link as a model: it says of each packet when it arrives, or why not.

mod service;

use std::collections::VecDeque;

use hawser_types::{ByteCount, Instant};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::Line;
use service::Server;

/// The state of one direction: drop-tail queue, server, delay, loss, in this order.
///
/// Packets are given in order of arrival and leave in the same order. The whole fate of a packet
/// is known when it arrives, because service depends on nothing that comes later.
#[derive(Debug)]
pub struct LineState {
    line: Line,
    server: Server,
    rng: SmallRng,
    limit: ByteCount,
    /// Start of service and size of packets that had not been served at the last arrival.
    waiting: VecDeque<(Instant, ByteCount)>,
    backlog: ByteCount,
    free_at: Instant,
    last_delivery: Instant,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It reaches the other end at this time.
    Delivered(Instant),
    /// The queue was full.
    Overflowed,
    /// It was served, and lost on the way.
    Lost,
}

impl LineState {
    /// An idle line at `now`.
    pub fn new(line: Line, seed: u64, now: Instant) -> Self {
        Self {
            server: Server::new(&line, now),
            rng: SmallRng::seed_from_u64(seed),
            limit: (line.rate * line.queue).max(MIN_QUEUE),
            waiting: VecDeque::new(),
            backlog: ByteCount::ZERO,
            free_at: now,
            last_delivery: now,
            line,
        }
    }

    /// Takes in a packet of `size` bytes that arrived at `arrival`.
    pub fn handle_packet(&mut self, arrival: Instant, size: ByteCount) -> Fate {
        while let Some((start, waited)) = self.waiting.front().copied()
            && start <= arrival
        {
            self.waiting.pop_front();
            self.backlog -= waited;
        }
        if self.backlog + size > self.limit {
            return Fate::Overflowed;
        }
        let start = self.free_at.max(arrival);
        if start > arrival {
            self.waiting.push_back((start, size));
            self.backlog += size;
        }
        self.free_at = self.server.finish(start, size, &mut self.rng);
        if self.line.loss > 0.0 && self.rng.random_bool(self.line.loss) {
            return Fate::Lost;
        }
        let mut delivery = self.free_at + self.line.delay;
        if !self.line.jitter.is_zero() {
            let wander = self.line.jitter * 2;
            let offset = wander.mul_f64(self.rng.random());
            delivery = delivery + offset - self.line.jitter;
        }
        self.last_delivery = self.last_delivery.max(delivery);
        Fate::Delivered(self.last_delivery)
    }
}

/// A queue that cannot hold one packet would carry nothing.
const MIN_QUEUE: ByteCount = ByteCount::new(1500);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Service;
    use std::time::Duration;

    fn line(loss: f64, jitter: Duration) -> Line {
        Line {
            rate: "12Mbit/s".parse().unwrap(),
            delay: Duration::from_millis(10),
            jitter,
            loss,
            queue: Duration::from_millis(10),
            service: Service::Steady,
        }
    }

    fn fates(line: Line, packets: u64, gap: Duration) -> Vec<Fate> {
        let mut state = LineState::new(line, 1, Instant::ZERO);
        let mut now = Instant::ZERO;
        let mut fates = Vec::new();
        for _ in 0..packets {
            fates.push(state.handle_packet(now, ByteCount::new(1500)));
            now += gap;
        }
        fates
    }

    #[test]
    fn a_burst_leaves_at_the_rate_and_the_queue_takes_its_time_of_it() {
        let fates = fates(line(0.0, Duration::ZERO), 20, Duration::ZERO);
        // One packet in service and 10 ms of them waiting, each 1 ms long.
        for (k, fate) in fates[..11].iter().enumerate() {
            let at = Instant::ZERO + Duration::from_millis(11 + k as u64);
            assert_eq!(*fate, Fate::Delivered(at));
        }
        assert!(fates[11..].iter().all(|f| *f == Fate::Overflowed));
    }

    #[test]
    fn packets_at_the_rate_never_overflow() {
        let fates = fates(line(0.0, Duration::ZERO), 1000, Duration::from_millis(1));
        assert!(fates.iter().all(|f| matches!(f, Fate::Delivered(_))));
    }

    #[test]
    fn loss_has_the_asked_share() {
        let fates = fates(
            line(0.02, Duration::ZERO),
            100_000,
            Duration::from_millis(1),
        );
        let lost = fates.iter().filter(|f| **f == Fate::Lost).count();
        assert!((1_850..2_150).contains(&lost), "{lost}");
    }

    #[test]
    fn jitter_keeps_the_order_and_its_bounds() {
        let jitter = Duration::from_millis(5);
        let fates = fates(line(0.0, jitter), 1000, Duration::from_millis(2));
        let mut last = Instant::ZERO;
        for (k, fate) in fates.iter().enumerate() {
            let Fate::Delivered(at) = *fate else {
                panic!("lost")
            };
            let took = at.since(Instant::ZERO + Duration::from_millis(2 * k as u64));
            assert!(took >= Duration::from_millis(6) && took <= Duration::from_millis(16));
            assert!(at >= last);
            last = at;
        }
    }

    #[test]
    fn a_queue_shorter_than_a_packet_still_carries() {
        let mut slow = line(0.0, Duration::ZERO);
        slow.rate = "60kbit/s".parse().unwrap();
        let fates = fates(slow, 10, Duration::from_secs(1));
        assert!(fates.iter().all(|f| matches!(f, Fate::Delivered(_))));
    }
}
