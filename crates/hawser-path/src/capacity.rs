use std::time::Duration;

use hawser_types::{ByteCount, Instant, Rate};

/// What a link can carry one way, from what went over it: the most of the last half minute.
///
/// Only while somebody wanted more than there was does the counter of an interface say what the
/// interface can do. Until two seconds of such time were seen, nothing is said, unless it carried
/// more than 10 Mbit/s, which callers would assume anyway. A rate that is no longer reached is held
/// for half a minute, then let go: by half in half a minute while the link is busy, which shows that
/// it can't do it any more, and in ten minutes while it is not, which shows nothing.
///
/// Source: DBAS §II.B.2 (passive estimation of interfaces).
#[derive(Clone, Debug, Default)]
pub struct Capacity {
    /// The counter, at the last moments at which it was read while the link was busy.
    seen: [Option<(Instant, ByteCount)>; 3],
    best: Option<Best>,
    /// How long the link was seen busy in all.
    busy: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Best {
    rate: Rate,
    /// When it was last reached.
    reached: Instant,
    /// Until when it was let go.
    faded: Instant,
}

impl Capacity {
    /// The interface has carried `total` bytes up to now. `busy`: all the time since the last call
    /// something was there to be carried.
    pub fn on_counter(&mut self, now: Instant, total: ByteCount, busy: bool) {
        self.fade(now, busy);
        let [_, before, last] = self.seen;
        // A counter that goes back belongs to another interface.
        let is_sequel = busy && last.is_some_and(|(_, bytes)| bytes <= total);
        self.seen = match is_sequel {
            true => [before, last, Some((now, total))],
            false => [None, None, Some((now, total))],
        };
        if let ([Some((since, bytes)), _, Some(_)], Some((last, _))) = (self.seen, last) {
            self.busy = self.busy.saturating_add(now.since(last));
            self.reach(now, Rate::over(total - bytes, now.since(since)));
        }
    }

    /// A transfer moved so many bytes in this time, in which it may have waited for other things
    /// than the link: the link can do that much at least.
    pub fn on_transfer(&mut self, now: Instant, bytes: ByteCount, span: Duration) {
        if bytes < MIN_TRANSFER || span.is_zero() {
            return;
        }
        self.fade(now, false);
        self.reach(now, Rate::over(bytes, span));
    }

    /// The link was measured on purpose.
    pub fn on_probe(&mut self, now: Instant, bytes: ByteCount, span: Duration) {
        self.on_transfer(now, bytes, span);
        if bytes >= MIN_TRANSFER {
            self.busy = self.busy.max(ENOUGH);
        }
    }

    /// What it can carry; `None` while too little was seen to say so.
    pub fn rate(&self) -> Option<Rate> {
        let best = self.best?;
        (self.busy >= ENOUGH || best.rate >= ANYWAY).then_some(best.rate)
    }

    /// How much is to be thought of [`Self::rate`], from 0 to 1: how long the link was seen busy,
    /// and how long ago it last carried so much.
    pub fn confidence(&self, now: Instant) -> f64 {
        let Some(best) = self.best else {
            return 0.0;
        };
        let seen = self.busy.as_secs_f64();
        let age = now.since(best.reached).as_secs_f64() / IDLE_HALF_LIFE.as_secs_f64();
        seen / (seen + ENOUGH.as_secs_f64()) * 0.5_f64.powf(age)
    }

    fn reach(&mut self, now: Instant, rate: Rate) {
        match &mut self.best {
            // Nearly as much confirms it.
            Some(best) if rate < best.rate => {
                if rate.bytes_per_second() >= best.rate.bytes_per_second() / 16 * 15 {
                    best.reached = now;
                }
            }
            _ => {
                self.best = Some(Best {
                    rate,
                    reached: now,
                    faded: now,
                });
            }
        }
    }

    fn fade(&mut self, now: Instant, busy: bool) {
        let Some(best) = &mut self.best else {
            return;
        };
        let from = best.faded.max(best.reached + HOLD);
        best.faded = best.faded.max(now);
        let half_life = match busy {
            true => BUSY_HALF_LIFE,
            false => IDLE_HALF_LIFE,
        };
        let left = 0.5_f64.powf(now.since(from).as_secs_f64() / half_life.as_secs_f64());
        let rate = best.rate.bytes_per_second() as f64 * left;
        best.rate = Rate::from_bytes_per_second(rate as u64);
    }
}

/// So much busy time says what a link can do.
const ENOUGH: Duration = Duration::from_secs(2);
/// So much is worth saying at once.
const ANYWAY: Rate = Rate::from_bits_per_second(10_000_000);
/// Less is over before its rate is felt.
const MIN_TRANSFER: ByteCount = ByteCount::from_kib(128);
const HOLD: Duration = Duration::from_secs(30);
const BUSY_HALF_LIFE: Duration = Duration::from_secs(30);
const IDLE_HALF_LIFE: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use super::*;

    /// A link whose counter is read every half second.
    #[derive(Default)]
    struct Link {
        capacity: Capacity,
        now: Instant,
        total: ByteCount,
    }

    impl Link {
        /// Carries `bytes` between each of so many readings.
        fn carry(&mut self, times: u64, bytes: u64, busy: bool) {
            for _ in 0..times {
                self.now += Duration::from_millis(500);
                self.total += ByteCount::new(bytes);
                self.capacity.on_counter(self.now, self.total, busy);
            }
        }

        fn kilobits(&self) -> Option<u64> {
            Some(self.capacity.rate()?.bits_per_second() / 1000)
        }
    }

    #[test]
    fn what_goes_over_a_busy_link_is_its_rate_once_enough_was_seen() {
        let mut link = Link::default();
        link.carry(4, 62_500, true);
        assert_eq!(link.kilobits(), None);
        link.carry(4, 62_500, true);
        assert_eq!(link.kilobits(), Some(1_000));
    }

    #[test]
    fn more_than_an_ordinary_link_carries_is_said_at_once() {
        let mut link = Link::default();
        link.carry(3, 6_250_000, true);
        assert_eq!(link.kilobits(), Some(100_000));
    }

    #[test]
    fn what_a_link_carries_while_nobody_wants_more_says_nothing() {
        let mut link = Link::default();
        link.carry(100, 62_500, false);
        let confidence = link.capacity.confidence(link.now);
        assert_eq!((link.kilobits(), confidence), (None, 0.0));
    }

    #[test]
    fn a_rate_is_held_while_idle_and_let_go_while_busy_with_less() {
        let mut link = Link::default();
        link.carry(20, 625_000, true);
        assert_eq!(link.kilobits(), Some(10_000));
        link.carry(60, 0, false);
        assert_eq!(link.kilobits(), Some(10_000), "half a minute");
        link.carry(120, 62_500, true);
        let faded = link.kilobits().unwrap();
        assert!((2_000..3_000).contains(&faded), "two half lives: {faded}");
        link.carry(1_200, 62_500, true);
        let faded = link.kilobits().unwrap();
        assert!((1_000..1_070).contains(&faded), "what it can do: {faded}");
        let confidence = |later| {
            link.capacity
                .confidence(link.now + Duration::from_secs(later))
        };
        assert!(confidence(0) > 0.9 && confidence(1_200) < 0.3);
    }

    #[test]
    fn a_counter_that_begins_anew_is_no_rate() {
        let mut link = Link::default();
        link.carry(1, 5_000_000, true);
        link.total = ByteCount::ZERO;
        link.carry(8, 62_500, true);
        assert_eq!(link.kilobits(), Some(1_000));
    }

    #[test]
    fn a_measurement_is_enough_and_a_small_transfer_is_not() {
        let mut link = Link::default();
        let (small, second) = (ByteCount::new(20_000), Duration::from_secs(1));
        link.capacity.on_transfer(link.now, small, second);
        assert_eq!(link.kilobits(), None);
        let measured = ByteCount::new(250_000);
        link.capacity.on_probe(link.now, measured, second);
        assert_eq!(link.kilobits(), Some(2_000));
    }
}
