//! How fast packets go on that have waited together.

use std::time::Duration;

use hawser_types::Instant;

/// Steps in which a flow's packets go on.
///
/// The socket of a program holds some ninety full packets, in Linux by default (208 KiB, of which a
/// packet of 1200 bytes takes 2.3), so it would lose much of what has waited for a packet that was
/// sent once more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Packets in each step.
    packets: usize,
    /// When the next step is due.
    next: Instant,
}

impl Pace {
    /// For `waiting` packets, the first of which came at `since`: four times as fast as they came.
    /// `None` where all of them may go on at once.
    pub(super) fn new(now: Instant, waiting: usize, since: Instant) -> Option<Self> {
        let waited = now.since(since).as_nanos().max(1);
        let came = waiting as u128 * STEP.as_nanos() / waited;
        let packets = usize::try_from(4 * came).unwrap_or(usize::MAX);
        let packets = packets.max(LEAST);
        (waiting > packets).then_some(Self { packets, next: now })
    }

    /// When the next step is due.
    pub(super) fn next(&self) -> Instant {
        self.next
    }

    /// Begins a step, if it is due. Returns how many packets go on.
    pub(super) fn step(&mut self, now: Instant) -> usize {
        if now < self.next {
            return 0;
        }
        self.next = now + STEP;
        self.packets
    }
}

/// As short as timers of tasks are.
const STEP: Duration = Duration::from_millis(1);
/// A third of what a socket holds.
const LEAST: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn what_came_in_a_moment_goes_on_at_once() {
        assert!(Pace::new(ms(5), 5000, ms(5)).is_none());
        assert!(Pace::new(ms(5), 900, ms(2)).is_none());
        assert!(Pace::new(ms(500), 32, ms(5)).is_none());
    }

    #[test]
    fn what_has_waited_long_goes_on_in_steps_of_four_times_its_rate() {
        let mut pace = Pace::new(ms(80), 440, ms(0)).unwrap();
        assert_eq!(pace.step(ms(80)), 32);
        assert_eq!(pace.step(ms(80)), 0);
        assert_eq!(pace.step(ms(81)), 32);
        let mut fast = Pace::new(ms(50), 5000, ms(0)).unwrap();
        assert_eq!(fast.step(ms(50)), 400);
        assert_eq!(fast.next(), ms(51));
    }
}
