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
                delivered,
                retransmissions: sample.retransmissions,
            });
            stall.repeats = sample.retransmissions.saturating_sub(stall.retransmissions);
            stall
        });
    }

    /// Returns the stall that lasts; `None` while full segments arrive or none is in flight.
    pub fn stall(&self) -> Option<Stall> {
        self.stall
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
