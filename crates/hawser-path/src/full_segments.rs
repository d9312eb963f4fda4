use std::time::Duration;

use hawser_types::{ByteCount, Instant};

use crate::KernelSample;

/// Whether full segments of a TCP connection arrive.
///
/// Some hosts drop packets that are too large for the next link, and send no ICMP message ("path
/// MTU black hole", RFC 2923). A handshake and short records pass there. A full segment never does,
/// however often TCP sends it.
#[derive(Clone, Copy, Debug, Default)]
pub struct FullSegments {
    stall: Option<Stall>,
}

/// A time in which at least one full segment was in flight and nothing was delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// Time at which it began.
    pub since: Instant,
    /// Segments sent again since then.
    pub repeats: u64,
    /// Time of the sample that showed the latest of these; `since` before the first.
    pub repeated_at: Instant,
    /// Number of times that something was sent again between two signs of life of the link.
    pub framed: u64,
    /// `repeats` at the latest sign of life.
    at_sign: Option<u64>,
    /// `repeats` when something first came over the link.
    at_arrival: Option<u64>,
    delivered: u64,
    retransmissions: u64,
}

impl FullSegments {
    /// Takes in what the kernel says now. `segment`: bytes of payload in a full segment.
    pub fn on_sample(&mut self, now: Instant, sample: &KernelSample, segment: ByteCount) {
        let delivered = sample
            .delivered
            .filter(|_| sample.in_network() >= segment && segment > ByteCount::ZERO);
        self.stall = delivered.map(|delivered| {
            let before = self.stall.filter(|stall| stall.delivered == delivered);
            let mut stall = before.unwrap_or(Stall {
                since: now,
                repeats: 0,
                repeated_at: now,
                framed: 0,
                at_sign: None,
                at_arrival: None,
                delivered,
                retransmissions: sample.retransmissions,
            });
            let repeats = sample.retransmissions.saturating_sub(stall.retransmissions);
            if repeats > stall.repeats {
                (stall.repeats, stall.repeated_at) = (repeats, now);
            }
            stall
        });
    }

    /// Takes note that the link has answered something that was sent at `asked` on another
    /// connection. It counts if a segment was sent again before.
    pub fn on_sign_of_life(&mut self, asked: Instant) {
        let Some(stall) = &mut self.stall else {
            return;
        };
        if stall.repeats > 0 && asked >= stall.repeated_at {
            let before = stall.at_sign.replace(stall.repeats);
            if before.is_some_and(|before| stall.repeats > before) {
                stall.framed += 1;
            }
        }
    }

    /// Takes note that the peer's data came over the link at `at`. `delay`: the time for which what
    /// was sent before the stall may still arrive.
    pub fn on_arrival(&mut self, at: Instant, delay: Duration) {
        if let Some(stall) = &mut self.stall
            && at > stall.since + delay
        {
            stall.at_arrival.get_or_insert(stall.repeats);
        }
    }

    /// Returns the stall that lasts; `None` while full segments arrive or none is in flight.
    pub fn stall(&self) -> Option<Stall> {
        self.stall
    }
}

impl Stall {
    /// Returns the number of segments that were sent again since the peer's data came over the
    /// link: so often the link was alive, at least towards this side.
    pub fn repeats_on_live_link(&self) -> u64 {
        self.at_arrival.map_or(0, |before| self.repeats - before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: ByteCount = ByteCount::new(1448);

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    fn sample(in_network: u64, delivered: u64, retransmissions: u64) -> KernelSample {
        KernelSample {
            unacknowledged: ByteCount::new(in_network),
            not_sent: Some(ByteCount::ZERO),
            delivered: Some(delivered),
            retransmissions,
            ..KernelSample::default()
        }
    }

    #[test]
    fn retransmissions_count_from_the_last_delivery() {
        let mut full = FullSegments::default();
        full.on_sample(at(0), &sample(14_480, 3, 5), SEGMENT);
        full.on_sample(at(50), &sample(14_480, 4, 6), SEGMENT);
        full.on_sample(at(300), &sample(14_480, 4, 8), SEGMENT);
        let stall = full.stall().unwrap();
        assert_eq!((stall.since, stall.repeats), (at(50), 2));
    }

    #[test]
    fn repeats_count_that_stand_between_signs_of_life() {
        let mut full = FullSegments::default();
        let framed = |full: &FullSegments| full.stall().unwrap().framed;
        full.on_sample(at(0), &sample(14_480, 3, 5), SEGMENT);
        full.on_sign_of_life(at(10));
        full.on_sample(at(100), &sample(14_480, 3, 6), SEGMENT);
        assert_eq!(framed(&full), 0, "nothing was sent again before the sign");
        full.on_sign_of_life(at(90));
        assert_eq!(framed(&full), 0, "it is older than the repeat");
        full.on_sign_of_life(at(110));
        full.on_sign_of_life(at(150));
        full.on_sample(at(300), &sample(14_480, 3, 7), SEGMENT);
        assert_eq!(framed(&full), 0, "no sign after the second repeat");
        full.on_sign_of_life(at(300));
        assert_eq!(framed(&full), 1);
        full.on_sample(at(700), &sample(14_480, 3, 8), SEGMENT);
        full.on_sign_of_life(at(720));
        assert_eq!(framed(&full), 2);
        full.on_sample(at(800), &sample(14_480, 4, 8), SEGMENT);
        assert_eq!(framed(&full), 0, "something was delivered");
    }

    #[test]
    fn repeats_after_the_peers_data_came_are_told_from_those_before() {
        let mut full = FullSegments::default();
        let delay = Duration::from_millis(50);
        let repeats = |full: &FullSegments| full.stall().unwrap().repeats_on_live_link();
        full.on_sample(at(0), &sample(14_480, 3, 5), SEGMENT);
        full.on_arrival(at(50), delay);
        full.on_sample(at(100), &sample(14_480, 3, 6), SEGMENT);
        assert_eq!(repeats(&full), 0, "it may have been sent before the stall");
        full.on_arrival(at(150), delay);
        assert_eq!(repeats(&full), 0);
        full.on_sample(at(300), &sample(14_480, 3, 7), SEGMENT);
        full.on_arrival(at(310), delay);
        assert_eq!(repeats(&full), 1);
        full.on_sample(at(320), &sample(14_480, 5, 7), SEGMENT);
        assert_eq!(repeats(&full), 0, "something was delivered");
    }

    #[test]
    fn what_is_smaller_than_a_full_segment_says_nothing() {
        let mut full = FullSegments::default();
        full.on_sample(at(0), &sample(1447, 3, 0), SEGMENT);
        full.on_sample(at(900), &sample(1447, 3, 4), SEGMENT);
        assert_eq!(full.stall(), None);
    }

    #[test]
    fn a_kernel_that_does_not_count_deliveries_shows_no_stall() {
        let mut full = FullSegments::default();
        let silent = KernelSample {
            delivered: None,
            ..sample(14_480, 0, 0)
        };
        full.on_sample(at(0), &silent, SEGMENT);
        assert_eq!(full.stall(), None);
    }
}
