//! Model of one direction of a link: it computes for each packet when it arrives, or why not.

mod service;

use std::collections::VecDeque;

use hawser_types::{ByteCount, Instant};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::{Line, Loss};
use service::Server;

/// The state of one direction: drop-tail queue, server, delay, loss, in this order.
///
/// Packets enter in order of arrival and leave in the same order. The fate of a packet is known
/// when it enters, because service does not depend on later packets.
#[derive(Debug)]
pub struct LineState {
    line: Line,
    server: Server,
    rng: SmallRng,
    limit: ByteCount,
    /// Start of service and size of packets not yet served at the last arrival.
    waiting: VecDeque<(Instant, ByteCount)>,
    backlog: ByteCount,
    free_at: Instant,
    last_delivery: Instant,
    /// A loss burst is in progress.
    in_burst: bool,
    /// From this time on, packets of more bytes vanish.
    narrows: Option<(Instant, ByteCount)>,
    /// From this time on, it is another line.
    next: Option<(Instant, Line)>,
}

/// Fate of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It reaches the other end at this time.
    Delivered(Instant),
    /// The queue was full.
    Overflowed,
    /// It was served, then lost.
    Lost,
    /// It is larger than the line takes.
    TooLarge,
}

impl LineState {
    /// Creates an idle line at `now`.
    pub fn new(line: Line, seed: u64, now: Instant) -> Self {
        Self {
            server: Server::new(&line, now),
            rng: SmallRng::seed_from_u64(seed),
            limit: limit(&line),
            waiting: VecDeque::new(),
            backlog: ByteCount::ZERO,
            free_at: now,
            last_delivery: now,
            in_burst: false,
            narrows: None,
            next: None,
            line,
        }
    }

    /// Lets packets of more than `most` bytes vanish from `at` on, whatever was before.
    pub fn narrow(&mut self, at: Instant, most: ByteCount) {
        self.narrows = Some((at, most));
    }

    /// Makes it another line from `at` on: behind a tree, say. What has entered before is served
    /// as it would have been.
    pub fn change(&mut self, at: Instant, line: Line) {
        self.next = Some((at, line));
    }

    fn largest_packet(&self, now: Instant) -> Option<ByteCount> {
        let narrowed = self.narrows.filter(|(at, _)| *at <= now);
        narrowed.map(|(_, most)| most).or(self.line.largest_packet)
    }

    /// Handles a packet of `size` bytes that enters at `arrival`.
    pub fn handle_packet(&mut self, arrival: Instant, size: ByteCount) -> Fate {
        if let Some((at, line)) = self.next.take_if(|(at, _)| *at <= arrival) {
            self.server = Server::new(&line, at);
            self.limit = limit(&line);
            self.line = line;
        }
        let largest = self.largest_packet(arrival);
        if largest.is_some_and(|most| size > most) {
            return Fate::TooLarge;
        }
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
        if self.loses() {
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

    /// Draws whether the next packet is lost.
    fn loses(&mut self) -> bool {
        let Loss { mean, burst } = self.line.loss;
        if mean <= 0.0 {
            return false;
        }
        let Some(burst) = burst else {
            return self.rng.random_bool(mean);
        };
        // The probability that a burst ends gives its mean length; the probability that one begins
        // gives the mean loss.
        let ends = 1.0 / burst;
        let turns = if self.in_burst {
            ends
        } else {
            (ends * mean / (1.0 - mean)).min(1.0)
        };
        self.in_burst ^= self.rng.random_bool(turns);
        self.in_burst
    }
}

fn limit(line: &Line) -> ByteCount {
    (line.rate * line.queue).max(MIN_QUEUE)
}

/// Minimum queue: a smaller one could carry no packet.
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
            loss: Loss {
                mean: loss,
                burst: None,
            },
            queue: Duration::from_millis(10),
            service: Service::Steady,
            largest_packet: None,
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
    fn packets_that_are_too_large_vanish_and_cost_the_others_no_time() {
        let mut narrow = line(0.0, Duration::ZERO);
        narrow.largest_packet = Some(ByteCount::new(1300));
        let mut state = LineState::new(narrow, 1, Instant::ZERO);
        let mut fate = |size| state.handle_packet(Instant::ZERO, ByteCount::new(size));
        assert_eq!(fate(1301), Fate::TooLarge);
        // 1300 bytes last 866.667 µs at 12 Mbit/s.
        let Fate::Delivered(at) = fate(1300) else {
            panic!("lost")
        };
        assert_eq!(at.since(Instant::ZERO).as_micros(), 10_866);
        // The route changes.
        let changes = Instant::ZERO + Duration::from_secs(1);
        state.narrow(changes, ByteCount::new(900));
        let mut fate = |nanos, size| {
            let at = Instant::from_nanos(nanos);
            state.handle_packet(at, ByteCount::new(size)) == Fate::TooLarge
        };
        assert!(fate(999_999_999, 1301) && !fate(999_999_999, 1300));
        assert!(fate(1_000_000_000, 901) && !fate(1_000_000_000, 900));
    }

    #[test]
    fn a_line_that_changes_serves_what_comes_later_in_its_new_way() {
        let mut state = LineState::new(line(0.0, Duration::ZERO), 1, Instant::ZERO);
        let slower = Line {
            rate: "1200kbit/s".parse().unwrap(),
            ..line(0.0, Duration::ZERO)
        };
        let millis = |ms| Instant::ZERO + Duration::from_millis(ms);
        state.change(millis(3), slower);
        let mut fate = |at| state.handle_packet(millis(at), ByteCount::new(1500));
        // Two packets of 1 ms each, then two of 10 ms, of which one waits: the queue is full.
        assert_eq!(fate(2), Fate::Delivered(millis(13)));
        assert_eq!(fate(2), Fate::Delivered(millis(14)));
        assert_eq!(fate(3), Fate::Delivered(millis(24)));
        assert_eq!(fate(4), Fate::Delivered(millis(34)));
        assert_eq!(fate(5), Fate::Overflowed);
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
    fn bursts_of_loss_have_the_asked_share_and_length() {
        let mut bursty = line(0.0, Duration::ZERO);
        for (mean, burst) in [(0.01, 8.0), (0.3, 2.0), (0.5, 1.0), (0.05, 40.0)] {
            bursty.loss = Loss {
                mean,
                burst: Some(burst),
            };
            let fates = fates(bursty.clone(), 500_000, Duration::from_millis(1));
            let lost: Vec<bool> = fates.iter().map(|f| *f == Fate::Lost).collect();
            let count = lost.iter().filter(|lost| **lost).count() as f64;
            let bursts = lost.chunk_by(|a, b| a == b).filter(|run| run[0]).count() as f64;
            // Four standard deviations: the variance of the share is that of independent loss,
            // longer by the correlation of runs.
            let spread = (mean * (1.0 - mean) * 2.0 * burst / 5e5).sqrt() * 4.0;
            assert!(
                (count / 5e5 - mean).abs() < spread,
                "{mean} {burst}: {count}"
            );
            let length = count / bursts;
            let spread = burst * 4.0 / bursts.sqrt();
            assert!((length - burst).abs() <= spread, "{mean} {burst}: {length}");
        }
    }

    #[test]
    fn bursts_are_as_long_as_a_chain_of_two_states_makes_them() {
        let mut bursty = line(0.0, Duration::ZERO);
        bursty.loss = Loss {
            mean: 0.1,
            burst: Some(4.0),
        };
        let fates = fates(bursty, 1_000_000, Duration::from_millis(1));
        let runs: Vec<usize> = fates
            .chunk_by(|a, b| (*a == Fate::Lost) == (*b == Fate::Lost))
            .filter(|run| run[0] == Fate::Lost)
            .map(<[Fate]>::len)
            .collect();
        // Each further packet of a burst is lost with a chance of three quarters.
        for length in 1..8 {
            let long = runs.iter().filter(|run| **run > length).count() as f64;
            let expected = 0.75_f64.powi(length as i32);
            let share = long / runs.len() as f64;
            assert!((share - expected).abs() < 0.015, "{length}: {share}");
        }
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
