//! Whether others fill the queue of a path on which bbr gives way.

use std::time::Duration;

use hawser_types::{ByteCount, Instant, Rate};

use super::facts::ControlFacts;

/// Finds out whether others fill a slow link's queue: more stands in it than bbr alone would leave
/// there, for two seconds on end.
///
/// bbr has up to two round trips of the empty path in flight, and four segments at least; a queue
/// that it made itself when it began, or when a link became slower, is drained within ten round
/// trips. Beside a window it goes by the length that it knows from before, for up to ten seconds,
/// and gives way all that time: less in flight brings less, and what it takes for the rate falls
/// with it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rivals {
    latest: Instant,
    crowded_since: Option<Instant>,
    /// The most that the connection ever carried.
    most: Rate,
}

impl Rivals {
    /// Forgets what stood in the queue.
    pub(crate) fn begin_anew(&mut self) {
        self.crowded_since = None;
    }

    /// Takes in how a connection with bbr stands, while it has something in flight. Whether others
    /// fill the queue.
    pub(crate) fn on_sample(&mut self, now: Instant, facts: &ControlFacts) -> bool {
        if now.since(self.latest) > MAX_GAP {
            self.crowded_since = None;
        }
        self.latest = now;
        self.most = self.most.max(facts.rate);
        let segments = facts.rate.time_for(CRUISING).unwrap_or_default();
        let own = facts.length + facts.rtt_variation * 2 + segments + HARMLESS;
        let crowded = self.most <= SLOW && facts.rtt > facts.length + own;
        let since = crowded.then(|| self.crowded_since.unwrap_or(now));
        self.crowded_since = since;
        since.is_some_and(|since| now.since(since) >= BELIEVED.max(facts.rtt * ROUND_TRIPS))
    }
}

/// The four segments that bbr keeps in flight at the least.
const CRUISING: ByteCount = ByteCount::new(4 * 1500);
/// A queue up to this length does no harm.
const HARMLESS: Duration = Duration::from_millis(30);
/// A connection that never carried more is slow: a window finds its share there within seconds.
/// Where hundreds of segments fill the queue, that takes longer than bbr gives way.
const SLOW: Rate = Rate::from_bits_per_second(5_000_000);
/// For how long it must have looked so, and for how many round trips: bbr remembers a rate for ten.
const BELIEVED: Duration = Duration::from_secs(2);
const ROUND_TRIPS: u32 = 10;
/// Samples further apart have missed a pause.
const MAX_GAP: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(queue: u64) -> ControlFacts {
        ControlFacts {
            rtt: Duration::from_millis(10 + queue),
            rtt_variation: Duration::from_millis(5),
            length: Duration::from_millis(10),
            rate: Rate::from_bits_per_second(2_000_000),
            ..ControlFacts::default()
        }
    }

    /// Samples every 20 ms; when, if ever, others are found.
    fn found(queue: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        let mut rivals = Rivals::default();
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        (0..20_000).step_by(20).find(|&millis| {
            queue(millis).is_some_and(|queue| rivals.on_sample(at(millis), &facts(queue)))
        })
    }

    #[test]
    fn a_queue_that_bbr_would_have_drained_is_others() {
        assert_eq!(found(|_| Some(100)), Some(2000));
        // Long round trips take longer to drain.
        assert_eq!(found(|_| Some(290)), Some(3000));
    }

    #[test]
    fn what_bbr_leaves_itself_is_not() {
        // A round trip, its variation, four segments of 6 ms, and a harmless queue.
        assert_eq!(found(|_| Some(73)), None);
        assert_eq!(
            found(|millis| Some(if millis % 2000 == 0 { 50 } else { 100 })),
            None
        );
    }

    #[test]
    fn a_link_that_was_quick_once_is_left_to_bbr() {
        let mut rivals = Rivals::default();
        let quick = ControlFacts {
            rate: Rate::from_bits_per_second(6_000_000),
            ..facts(0)
        };
        rivals.on_sample(Instant::ZERO, &quick);
        for millis in (0..5000).step_by(20) {
            let now = Instant::ZERO + Duration::from_millis(millis);
            assert!(!rivals.on_sample(now, &facts(100)));
        }
    }

    #[test]
    fn a_pause_begins_it_anew() {
        assert_eq!(found(|millis| (millis % 2000 < 1400).then_some(100)), None);
    }
}
