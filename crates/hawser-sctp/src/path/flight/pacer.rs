use std::time::Duration;

use hawser_types::{ByteCount, Instant, Rate};

/// Spreads packets over time, so that a window does not leave in one burst.
#[derive(Debug, Default)]
pub(super) struct Pacer {
    /// When what has left so far would have left at the pace asked for.
    caught_up: Instant,
}

impl Pacer {
    /// When the next packet may leave.
    pub(super) fn free_at(&self) -> Instant {
        self.caught_up - QUANTUM
    }

    /// A packet leaves. `pace`: `None` where only the window counts.
    pub(super) fn on_sent(&mut self, now: Instant, size: ByteCount, pace: Option<Rate>) {
        let span = pace.and_then(|pace| pace.time_for(size));
        self.caught_up = self.caught_up.max(now) + span.unwrap_or_default();
    }
}

/// So much may leave at once: timers are not finer than this, and the network cards' batches gain
/// little from more. Source: the send quantum of draft-ietf-ccwg-bbr.
const QUANTUM: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_millisecond_of_packets_leaves_at_once_and_the_rest_at_the_pace() {
        let mut pacer = Pacer::default();
        let (mut now, pace) = (
            Instant::from_nanos(5_000_000),
            Rate::from_bytes_per_second(10_000_000),
        );
        let mut sent = 0;
        let end = now + Duration::from_millis(100);
        while now < end {
            while pacer.free_at() <= now {
                pacer.on_sent(now, ByteCount::new(1000), Some(pace));
                sent += 1;
            }
            now = pacer.free_at().max(now + Duration::from_micros(1));
        }
        assert!((1000..=1011).contains(&sent), "{sent}");
    }

    #[test]
    fn time_that_was_not_used_is_not_caught_up_with() {
        let mut pacer = Pacer::default();
        let pace = Some(Rate::from_bytes_per_second(1_000_000));
        pacer.on_sent(Instant::ZERO, ByteCount::new(1000), pace);
        let later = Instant::from_nanos(1_000_000_000);
        pacer.on_sent(later, ByteCount::new(5000), pace);
        assert_eq!(pacer.free_at(), later + Duration::from_millis(4));
    }

    #[test]
    fn without_a_pace_only_the_window_counts() {
        let mut pacer = Pacer::default();
        (0..1000).for_each(|_| pacer.on_sent(Instant::ZERO, ByteCount::new(1500), None));
        assert_eq!(pacer.free_at(), Instant::ZERO);
    }
}
