use std::time::Duration;

use hawser_types::{ByteCount, Instant, Rate};

use crate::KnownRate;

/// Capacity of a link in one direction, from the traffic on it: the most of the last half minute.
///
/// The counter of an interface shows what the interface can do only while more data waits than it
/// carries. Before two seconds of such time the capacity is unknown, unless it is above 10 Mbit/s,
/// which callers would assume anyway. A rate that is no longer reached is held for half a minute.
/// Then it halves in each half minute in which the link is busy, which shows that the link can't do
/// it any more. While the link is idle the rate stays and the confidence falls, by half in ten
/// minutes.
///
/// Source: DBAS §II.B.2 (passive estimation of interfaces).
#[derive(Clone, Debug, Default)]
pub struct Capacity {
    /// The counter, at the last moments at which it was read while the link was busy.
    seen: [Option<(Instant, ByteCount)>; 3],
    best: Option<Best>,
    /// The capacity is known from an earlier run, and was not seen in this one.
    is_recalled: bool,
    /// Total time for which the link was seen busy.
    busy: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Best {
    rate: Rate,
    /// Time at which it was last reached.
    reached: Instant,
    /// Time for which it is held after that.
    hold: Duration,
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
        self.seen = if is_sequel {
            [before, last, Some((now, total))]
        } else {
            [None, None, Some((now, total))]
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

    /// Takes in the rate of an earlier run, which holds until a better one is seen. The lower its
    /// confidence, the shorter it is held.
    pub fn recall(&mut self, now: Instant, known: KnownRate) {
        let confidence = known.confidence.clamp(0.0, MOST_RECALLED);
        if self.best.is_some() || known.rate == Rate::ZERO || confidence.is_nan() {
            return;
        }
        self.is_recalled = true;
        self.busy = ENOUGH.mul_f64(-(1.0 - confidence).log2());
        self.best = Some(Best {
            rate: known.rate,
            reached: now,
            hold: HOLD.mul_f64(confidence),
            faded: now,
        });
    }

    /// Returns the capacity seen in this run, for later ones, and when; `None` while there is none.
    pub fn learned(&self) -> Option<(KnownRate, Instant)> {
        let best = self.best.filter(|_| !self.is_recalled)?;
        // Of the moment when it was seen.
        let (rate, confidence) = (best.rate, self.confidence(best.reached));
        Some((KnownRate { rate, confidence }, best.reached))
    }

    /// Returns the least that it can carry, however little was seen; `None` while nothing was.
    pub fn seen(&self) -> Option<Rate> {
        Some(self.best?.rate)
    }

    /// Returns the rate at which the link counts among others; `unknown` if it was never seen.
    ///
    /// The rate seen is a lower bound. A link that has shown less than `unknown` counts the nearer
    /// to `unknown`, the lower its confidence.
    pub fn counts_for(&self, now: Instant, unknown: Rate) -> Rate {
        let Some(seen) = self.seen() else {
            return unknown;
        };
        let [low, high] = [seen, unknown].map(|rate| rate.bytes_per_second().max(1) as f64);
        let between = low.powf(self.confidence(now)) * high.powf(1.0 - self.confidence(now));
        seen.max(Rate::from_bytes_per_second(between as u64))
    }

    /// Returns the capacity; `None` while too little was seen to say so.
    pub fn rate(&self) -> Option<Rate> {
        let best = self.best?;
        (self.busy >= ENOUGH || best.rate >= ANYWAY).then_some(best.rate)
    }

    /// How much is to be thought of [`Self::rate`], from 0 to 1.
    ///
    /// Two seconds of busy time leave half of the doubt, and each two more half of what is left.
    /// The confidence falls with the time since the link last carried so much.
    pub fn confidence(&self, now: Instant) -> f64 {
        let Some(best) = self.best else {
            return 0.0;
        };
        let seen = self.busy.as_secs_f64() / ENOUGH.as_secs_f64();
        let age = now.since(best.reached).as_secs_f64() / IDLE_HALF_LIFE.as_secs_f64();
        (1.0 - 0.5_f64.powf(seen)) * 0.5_f64.powf(age)
    }

    fn reach(&mut self, now: Instant, rate: Rate) {
        match &mut self.best {
            // Nearly as much confirms it.
            Some(best) if rate < best.rate => {
                if rate.bytes_per_second() >= best.rate.bytes_per_second() / 16 * 15 {
                    (best.reached, best.hold) = (now, HOLD);
                    self.is_recalled = false;
                }
            }
            _ => {
                self.is_recalled = false;
                self.best = Some(Best {
                    rate,
                    reached: now,
                    hold: HOLD,
                    faded: now,
                });
            }
        }
    }

    fn fade(&mut self, now: Instant, busy: bool) {
        let Some(best) = &mut self.best else {
            return;
        };
        let from = best.faded.max(best.reached + best.hold);
        best.faded = best.faded.max(now);
        if !busy {
            return;
        }
        let left = 0.5_f64.powf(now.since(from).as_secs_f64() / BUSY_HALF_LIFE.as_secs_f64());
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
/// A recalled capacity is never certain; with more, measurements would have no weight.
const MOST_RECALLED: f64 = 0.9;
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
    fn what_a_link_carries_without_demand_says_nothing() {
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
        link.carry(7_200, 0, false);
        assert_eq!(link.kilobits(), Some(10_000), "an hour");
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

    fn known(kilobits: u64, confidence: f64) -> KnownRate {
        KnownRate {
            rate: Rate::from_bits_per_second(kilobits * 1000),
            confidence,
        }
    }

    #[test]
    fn what_is_recalled_counts_at_once_and_what_is_seen_takes_its_place() {
        let mut link = Link::default();
        link.capacity.recall(link.now, known(8_000, 0.8));
        assert_eq!(
            (link.kilobits(), link.capacity.learned()),
            (Some(8_000), None)
        );
        link.carry(40, 250_000, true);
        assert_eq!(link.capacity.learned(), None, "held for 24 s");
        link.carry(80, 250_000, true);
        let (learned, _) = link.capacity.learned().unwrap();
        let learned = learned.rate.bits_per_second();
        assert!((4_000_000..4_300_000).contains(&learned), "{learned}");
        // Too late: something better is known.
        link.capacity.recall(link.now, known(90_000, 0.9));
        assert!(link.kilobits().is_some_and(|rate| rate < 4_300));
        let mut faster = Link::default();
        faster.capacity.recall(faster.now, known(1_000, 0.9));
        faster.carry(3, 500_000, true);
        assert_eq!(faster.kilobits(), Some(8_000));
    }

    #[test]
    fn what_cannot_be_believed_is_not_recalled_with_more_than_it_is_worth() {
        for confidence in [f64::NAN, -1.0, 7.0, f64::INFINITY] {
            let mut link = Link::default();
            link.capacity.recall(link.now, known(8_000, confidence));
            assert!(link.capacity.confidence(link.now) <= 0.901);
        }
    }

    #[test]
    fn little_that_was_seen_is_a_lower_bound_and_much_is_the_rate() {
        let mut link = Link::default();
        let unknown = Rate::from_bits_per_second(10_000_000);
        let counts_for = |link: &Link| {
            let rate = link.capacity.counts_for(link.now, unknown);
            rate.bits_per_second() / 1000
        };
        assert_eq!(counts_for(&link), 10_000);
        link.carry(5, 62_500, true);
        assert!(
            (3_000..7_000).contains(&counts_for(&link)),
            "{}",
            counts_for(&link)
        );
        link.carry(100, 62_500, true);
        assert!(
            (1_000..1_200).contains(&counts_for(&link)),
            "{}",
            counts_for(&link)
        );
        link.carry(3, 3_125_000, true);
        assert_eq!(counts_for(&link), 50_000);
    }

    #[test]
    fn a_link_that_was_busy_for_ten_seconds_counts_for_what_it_carried() {
        let mut link = Link::default();
        let unknown = Rate::from_bits_per_second(10_000_000);
        link.carry(22, 62_500, true);
        let counts_for = link.capacity.counts_for(link.now, unknown);
        let kilobits = counts_for.bits_per_second() / 1000;
        assert!((1_000..1_100).contains(&kilobits), "{kilobits}");
    }

    #[test]
    fn what_is_recalled_has_the_confidence_that_it_was_kept_with() {
        for confidence in [0.1, 0.5, 0.75, 0.9] {
            let mut link = Link::default();
            link.capacity.recall(link.now, known(8_000, confidence));
            let recalled = link.capacity.confidence(link.now);
            assert!((recalled - confidence).abs() < 1e-9, "{recalled}");
        }
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
