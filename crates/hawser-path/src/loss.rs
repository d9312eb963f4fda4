use std::time::Duration;

/// Loss of a path, divided into congestion and the medium.
///
/// A queue that overflows is long before it does. So segments are counted apart by whether the
/// queue was long or short while they were lost: what is lost with a short queue is lost by the
/// medium, and would be lost with a long one as often; what is lost beyond that with a long one is
/// congestion.
///
/// A path that drops without ever queueing, as a policer does, cannot be told from a bad medium by
/// delay, and is reported as one.
///
/// Source: the idea of telling the two apart by round-trip times is S. Biaz and N. Vaidya,
/// *Discriminating Congestion Losses from Wireless Losses using Inter-Arrival Times at the
/// Receiver*, ASSET 1999, and that of TCP Veno (Fu and Liew, JSAC 2003), which asks for the backlog
/// at the moment of the loss.
#[derive(Clone, Copy, Debug, Default)]
pub struct Loss {
    counters: Option<(u64, u64)>,
    short: Tally,
    long: Tally,
    /// Segments lost with a short queue, ever.
    by_medium: u64,
    /// The longest queue lately seen, in seconds.
    peak: f64,
}

/// Segments, of which what is older counts less.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    delivered: f64,
    lost: f64,
}

impl Loss {
    /// Takes in the connection's counters: segments `delivered` and segments sent again, each since
    /// its beginning, and the standing `queue` meanwhile.
    pub fn on_counters(&mut self, delivered: u64, sent_again: u64, queue: Duration) {
        let before = self.counters.replace((delivered, sent_again));
        let Some((delivered_before, again_before)) = before else {
            return;
        };
        let delivered = delivered.saturating_sub(delivered_before) as f64;
        let lost = sent_again.saturating_sub(again_before) as f64;
        if delivered + lost == 0.0 {
            return;
        }
        let keep = (-(delivered + lost) / MEMORY).exp();
        for tally in [&mut self.short, &mut self.long] {
            tally.delivered *= keep;
            tally.lost *= keep;
        }
        let queue = queue.as_secs_f64();
        self.peak = queue.max(self.peak * keep);
        let tally = if queue > SHORTEST_PEAK && queue * 2.0 > self.peak {
            &mut self.long
        } else {
            self.by_medium += sent_again.saturating_sub(again_before);
            &mut self.short
        };
        tally.delivered += delivered;
        tally.lost += lost;
    }

    /// The share of segments that are lost, from 0 to 1, whatever the reason.
    pub fn rate(&self) -> f64 {
        let both = Tally {
            delivered: self.short.delivered + self.long.delivered,
            lost: self.short.lost + self.long.lost,
        };
        both.rate()
    }

    /// Segments that were lost while the queue was short, since the connection began. A
    /// segment that was sent again in vain counts too.
    pub const fn by_medium(&self) -> u64 {
        self.by_medium
    }

    /// The share that is lost by the medium, from 0 to 1.
    pub fn random(&self) -> f64 {
        if self.short.segments() >= ENOUGH {
            self.short.rate()
        } else {
            0.0
        }
    }

    /// The share that is lost because queues overflow, from 0 to 1.
    pub fn congestion(&self) -> f64 {
        (self.rate() - self.random()).max(0.0)
    }

    /// How far the division into random and congestion can be trusted, from 0 to 1: it takes
    /// segments with a short queue as well as lost ones. 0.5 with ten losses and a few hundred
    /// segments while the queue was short.
    pub fn confidence(&self) -> f64 {
        let lost = self.short.lost + self.long.lost;
        let short = self.short.segments();
        (lost / (lost + FEW_LOSSES)) * (short / (short + ENOUGH)).sqrt()
    }
}

impl Tally {
    fn segments(&self) -> f64 {
        self.delivered + self.lost
    }

    fn rate(&self) -> f64 {
        if self.segments() > 0.0 {
            self.lost / self.segments()
        } else {
            0.0
        }
    }
}

/// Segments after which one counts 1/e.
const MEMORY: f64 = 5000.0;
/// Seconds. Below, no queue is long: bursts alone make as much.
const SHORTEST_PEAK: f64 = 0.005;
/// Segments that it takes to say anything about a rate of a per cent.
const ENOUGH: f64 = 200.0;
const FEW_LOSSES: f64 = 8.0;

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds intervals of (delivered, lost, queue in milliseconds), over and over.
    fn fed(times: u64, pattern: &[(u64, u64, u64)]) -> Loss {
        let mut loss = Loss::default();
        let (mut delivered, mut again) = (0, 0);
        loss.on_counters(0, 0, Duration::ZERO);
        for _ in 0..times {
            for (more, lost, queue) in pattern {
                delivered += more;
                again += lost;
                loss.on_counters(delivered, again, Duration::from_millis(*queue));
            }
        }
        loss
    }

    #[test]
    fn loss_that_does_not_mind_the_queue_is_random() {
        let loss = fed(50, &[(99, 1, 2), (99, 1, 30), (198, 2, 10), (99, 1, 28)]);
        assert!((loss.rate() - 0.01).abs() < 0.001, "{loss:?}");
        assert!((loss.random() - 0.01).abs() < 0.002, "{loss:?}");
        assert!(loss.congestion() < 0.002, "{loss:?}");
        assert!(loss.confidence() > 0.6, "{}", loss.confidence());
    }

    #[test]
    fn loss_at_the_height_of_the_queue_is_congestion() {
        let sawtooth = [(100, 0, 10), (100, 0, 20), (100, 0, 40), (97, 3, 80)];
        let loss = fed(50, &sawtooth);
        assert!(loss.random() < 0.001, "{loss:?}");
        assert!((loss.congestion() - 0.0075).abs() < 0.001, "{loss:?}");
    }

    #[test]
    fn both_together_are_told_apart() {
        let loss = fed(50, &[(198, 2, 5), (198, 2, 10), (98, 2, 40), (92, 8, 80)]);
        assert!((loss.random() - 0.01).abs() < 0.003, "{loss:?}");
        assert!((0.008..0.02).contains(&loss.congestion()), "{loss:?}");
    }

    #[test]
    fn nothing_is_claimed_from_a_few_segments_or_an_ever_full_queue() {
        assert_eq!(Loss::default().confidence(), 0.0);
        let full = fed(50, &[(97, 3, 80)]);
        assert_eq!(full.random(), 0.0);
        assert!(full.confidence() < 0.3, "{}", full.confidence());
    }

    #[test]
    fn counters_that_begin_anew_are_not_negative() {
        let mut loss = Loss::default();
        loss.on_counters(1000, 50, Duration::ZERO);
        loss.on_counters(10, 0, Duration::ZERO);
        loss.on_counters(1010, 10, Duration::ZERO);
        assert!((loss.rate() - 0.01).abs() < 0.001);
    }
}
