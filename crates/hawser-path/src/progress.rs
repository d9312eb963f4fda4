use std::collections::VecDeque;
use std::time::Duration;

use hawser_types::{ByteCount, Instant};

/// How much a path has brought lately, whatever its rate was before.
///
/// A smoothed rate lags by seconds behind a path that has nearly died, since few samples come. What
/// has arrived within a span is known at once.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Bytes that had arrived, at moments a thirty-second of the span apart.
    marks: VecDeque<(Instant, ByteCount)>,
    sampled: Instant,
}

impl Progress {
    /// Takes in how many bytes have arrived since the path was first used. `span`: what
    /// [`Self::came_within`] will be asked for.
    pub fn on_sample(&mut self, now: Instant, arrived: ByteCount, span: Duration) {
        self.sampled = now;
        let latest = self.marks.back();
        if latest.is_some_and(|(at, _)| now.since(*at) < span / MARKS) {
            return;
        }
        self.marks.push_back((now, arrived));
        while self.marks.len() > 2 && now.since(self.marks[1].0) >= span {
            self.marks.pop_front();
        }
        // Of a span that was longer before.
        while self.marks.len() > MOST_MARKS {
            self.marks.pop_front();
        }
    }

    /// Returns the bytes that have arrived within a span before now, and up to the distance of two
    /// marks longer; `None` if the path was not watched for so long, or not lately.
    pub fn came_within(
        &self,
        now: Instant,
        arrived: ByteCount,
        span: Duration,
    ) -> Option<ByteCount> {
        if now.since(self.sampled) > STALE {
            return None;
        }
        let mut marks = self.marks.iter().rev();
        let (_, before) = marks.find(|(at, _)| now.since(*at) >= span)?;
        Some(arrived - *before)
    }
}

/// Samples come every 20 ms while anything is in flight.
const STALE: Duration = Duration::from_millis(60);
const MARKS: u32 = 32;
const MOST_MARKS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(value: u64) -> Duration {
        Duration::from_millis(value)
    }

    fn at(value: u64) -> Instant {
        Instant::ZERO + ms(value)
    }

    #[test]
    fn what_came_is_counted_over_the_span_and_forgotten_after_it() {
        let mut progress = Progress::default();
        let kb = |count: u64| ByteCount::new(count * 1000);
        for n in 0..=20 {
            progress.on_sample(at(n * 20), kb(n), ms(160));
        }
        assert_eq!(progress.came_within(at(400), kb(20), ms(160)), Some(kb(8)));
        // Then next to nothing.
        for n in 21..=40 {
            progress.on_sample(at(n * 20), kb(21), ms(160));
        }
        assert_eq!(progress.came_within(at(800), kb(21), ms(160)), Some(kb(0)));
        assert!(progress.marks.len() <= 11, "{:?}", progress.marks);
    }

    #[test]
    fn nothing_is_said_of_a_path_that_was_not_watched_for_so_long() {
        let mut progress = Progress::default();
        progress.on_sample(at(1000), ByteCount::ZERO, ms(160));
        assert_eq!(
            progress.came_within(at(1100), ByteCount::ZERO, ms(160)),
            None
        );
    }
}
