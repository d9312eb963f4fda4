use std::time::Duration;

use hawser_types::Instant;

/// Times of CoDel.
#[derive(Clone, Copy, Debug)]
pub(super) struct CodelConfig {
    /// Time in the queue that is tolerated.
    pub(super) target: Duration,
    /// Time for which it may be longer.
    pub(super) interval: Duration,
}

/// Judges one queue by the time that its packets spent in it.
///
/// Source: RFC 8289 §5. A queue that falls by itself is left alone, which is not in it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Codel {
    first_above: Option<Instant>,
    drop_next: Instant,
    count: u32,
    last_count: u32,
    is_dropping: bool,
    trend: Trend,
}

/// Whether a queue falls by itself.
#[derive(Clone, Copy, Debug, Default)]
struct Trend {
    /// End of the present interval.
    ends: Instant,
    /// Shortest time in the queue in this interval.
    lowest: Duration,
    /// The same of the interval before.
    before: Duration,
    is_falling: bool,
}

impl Codel {
    /// Tells whether the packet that leaves the queue is to be dropped, or marked. `is_short`: no
    /// more than a packet is left behind it. After a drop the next packet is judged as well.
    pub(super) fn on_packet(
        &mut self,
        now: Instant,
        sojourn: Duration,
        is_short: bool,
        config: &CodelConfig,
    ) -> bool {
        let is_falling = self.trend.is_falling(now, sojourn, config.interval);
        let may_drop = self.is_above(now, sojourn, is_short, config) && !is_falling;
        if self.is_dropping {
            if !may_drop {
                self.is_dropping = false;
                return false;
            }
            if now < self.drop_next {
                return false;
            }
            self.count = self.count.saturating_add(1);
            self.drop_next = control_law(self.drop_next, self.count, config);
            return true;
        }
        if !may_drop {
            return false;
        }
        self.is_dropping = true;
        let delta = self.count.saturating_sub(self.last_count);
        let is_recent = now.since(self.drop_next) < 16 * config.interval;
        self.count = if delta > 1 && is_recent { delta } else { 1 };
        self.drop_next = control_law(now, self.count, config);
        self.last_count = self.count;
        true
    }

    /// Whether packets were late for a whole interval.
    fn is_above(
        &mut self,
        now: Instant,
        sojourn: Duration,
        is_short: bool,
        config: &CodelConfig,
    ) -> bool {
        if sojourn < config.target || is_short {
            self.first_above = None;
            return false;
        }
        let since = *self.first_above.get_or_insert(now + config.interval);
        now >= since
    }
}

impl Trend {
    /// Whether the last interval's queue was shorter than that of the one before, by more than it
    /// varies.
    fn is_falling(&mut self, now: Instant, sojourn: Duration, interval: Duration) -> bool {
        if now < self.ends {
            self.lowest = self.lowest.min(sojourn);
            return self.is_falling;
        }
        let is_old = now >= self.ends + interval;
        self.is_falling = !is_old && self.lowest + interval / FALLS < self.before;
        self.before = if is_old { Duration::ZERO } else { self.lowest };
        (self.ends, self.lowest) = (now + interval, sojourn);
        self.is_falling
    }
}

fn control_law(from: Instant, count: u32, config: &CodelConfig) -> Instant {
    from + config.interval.div_f64(f64::from(count.max(1)).sqrt())
}

/// A queue falls if its shortest delay shrinks by more than this part of an interval, one in so
/// many, from one interval to the next.
const FALLS: u32 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: CodelConfig = CodelConfig {
        target: Duration::from_millis(5),
        interval: Duration::from_millis(100),
    };

    /// A packet each millisecond; returns the milliseconds of drops.
    fn drops(codel: &mut Codel, from: u64, to: u64, sojourn: u64) -> Vec<u64> {
        let sojourn = Duration::from_millis(sojourn);
        let dropped = |at: &u64| {
            let now = Instant::ZERO + Duration::from_millis(*at);
            codel.on_packet(now, sojourn, false, &CONFIG)
        };
        (from..to).filter(dropped).collect()
    }

    #[test]
    fn a_queue_that_stands_is_dropped_from_more_and_more_often() {
        let mut codel = Codel::default();
        // After an interval, then after 100/√2, 100/√3, … ms.
        let times = drops(&mut codel, 1000, 1420, 20);
        assert_eq!(times, [1100, 1200, 1271, 1329, 1379]);
        // A short time below the target ends it.
        assert_eq!(drops(&mut codel, 1420, 1421, 4), []);
        assert_eq!(drops(&mut codel, 1421, 1500, 20), []);
    }

    #[test]
    fn a_queue_that_falls_is_left_alone() {
        let mut codel = Codel::default();
        let mut drops_while = |from: u64, to: u64, sojourn: fn(u64) -> u64| {
            let dropped = (from..to).filter(|at| {
                let now = Instant::ZERO + Duration::from_millis(*at);
                codel.on_packet(now, Duration::from_millis(sojourn(*at)), false, &CONFIG)
            });
            dropped.count()
        };
        // It loses 5 ms in each 100: what comes is a twentieth less than what leaves.
        assert_eq!(drops_while(0, 2000, |at| 200 - at / 20), 1);
        // It stands at 100 ms: an interval later that is clear.
        assert!(drops_while(2000, 3000, |_| 100) > 10);
        // It grows.
        assert!(drops_while(3000, 4000, |at| 100 + (at - 3000) / 20) > 10);
    }

    #[test]
    fn a_queue_of_one_packet_is_left_alone() {
        let mut codel = Codel::default();
        for at in 0..500 {
            let now = Instant::ZERO + Duration::from_millis(at);
            assert!(!codel.on_packet(now, Duration::from_secs(1), true, &CONFIG));
        }
    }
}
