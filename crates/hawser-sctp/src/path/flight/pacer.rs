use std::time::Duration;

use hawser_types::{ByteCount, Instant, Rate};

/// Pacing: spreads packets over time, so that a window does not leave in one burst.
#[derive(Debug, Default)]
pub(super) struct Pacer {
    /// Time at which everything sent so far would have left at the pacing rate.
    caught_up: Instant,
    /// More data waits for pacing: delay beyond that time is made up for.
    is_waited_for: bool,
}

impl Pacer {
    /// Returns when the next packet may leave.
    pub(super) fn free_at(&self) -> Instant {
        self.caught_up - QUANTUM
    }

    /// Tells whether something waits for pacing and nothing else.
    pub(super) fn set_waiting(&mut self, is_waiting: bool) {
        self.is_waited_for = is_waiting;
    }

    /// Handles a packet that leaves. `pace`: `None` where only the window counts.
    pub(super) fn on_sent(&mut self, now: Instant, size: ByteCount, pace: Option<Rate>) {
        let span = pace.and_then(|pace| pace.time_for(size));
        let behind = if self.is_waited_for {
            LATE
        } else {
            Duration::ZERO
        };
        self.caught_up = self.caught_up.max(now - behind) + span.unwrap_or_default();
        self.is_waited_for &= self.caught_up < now;
    }
}

/// Burst that may leave at once: timers are not finer, and larger batches gain network cards
/// little. Source: the send quantum of draft-ietf-ccwg-bbr.
const QUANTUM: Duration = Duration::from_millis(1);
/// Maximum timer delay that pacing makes up for, as on a busy machine.
const LATE: Duration = Duration::from_millis(5);

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
    fn a_timer_that_is_late_costs_no_rate_up_to_a_limit() {
        let pace = Some(Rate::from_bytes_per_second(1_000_000));
        let sent_in = |late: u64| {
            let (mut pacer, mut now, mut sent) = (Pacer::default(), Instant::ZERO, 0);
            while now < Instant::from_nanos(1_000_000_000) {
                while pacer.free_at() <= now {
                    pacer.on_sent(now, ByteCount::new(1000), pace);
                    sent += 1;
                }
                pacer.set_waiting(true);
                now = pacer.free_at() + Duration::from_millis(late);
            }
            sent
        };
        assert!((990..=1010).contains(&sent_in(0)));
        assert!((990..=1010).contains(&sent_in(4)));
        assert!(sent_in(40) < 300);
    }

    #[test]
    fn without_a_pace_only_the_window_counts() {
        let mut pacer = Pacer::default();
        (0..1000).for_each(|_| pacer.on_sent(Instant::ZERO, ByteCount::new(1500), None));
        assert_eq!(pacer.free_at(), Instant::ZERO);
    }
}
