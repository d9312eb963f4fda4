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
/// Source: RFC 8289 §5.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Codel {
    first_above: Option<Instant>,
    drop_next: Instant,
    count: u32,
    last_count: u32,
    is_dropping: bool,
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
        let may_drop = self.is_above(now, sojourn, is_short, config);
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

fn control_law(from: Instant, count: u32, config: &CodelConfig) -> Instant {
    from + config.interval.div_f64(f64::from(count.max(1)).sqrt())
}

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
    fn a_queue_of_one_packet_is_left_alone() {
        let mut codel = Codel::default();
        for at in 0..500 {
            let now = Instant::ZERO + Duration::from_millis(at);
            assert!(!codel.on_packet(now, Duration::from_secs(1), true, &CONFIG));
        }
    }
}
