//! Spares bulk channels BBR's RTT probe.
//!
//! When BBR has seen no lower round-trip time for ten seconds it cuts its window to four packets
//! for 200 ms, to drain the queue and measure afresh: two to four per cent of a link. The probe is
//! skipped when the connection happens to be idle at that moment, since then the next packet
//! measures just as well. So the channel is given nothing for the one round trip around that
//! moment, in which its chunks go over other links.
//!
//! Source: Linux `net/ipv4/tcp_bbr.c`, `bbr_update_min_rtt` (the condition on `idle_restart`).

use std::time::Duration;

use hawser_types::{ByteCount, Instant};

use crate::KernelSample;

/// Follows one connection's estimate of the lowest round-trip time, and says when to pause.
#[derive(Debug, Default)]
pub struct RttRefresh {
    seen: Option<Seen>,
    last_sample: Option<Instant>,
    /// How long what the channel was given takes to be acknowledged.
    drain: Duration,
    holding: bool,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    min_rtt: Duration,
    /// The estimate was last renewed after this …
    after: Instant,
    /// … and before this.
    before: Instant,
}

impl RttRefresh {
    /// Takes in what the kernel says, and BBR's estimate of the lowest round-trip time; `None` for
    /// another congestion control.
    pub fn on_sample(&mut self, now: Instant, sample: &KernelSample, min_rtt: Option<Duration>) {
        // BBR's window is two round trips' worth. A rate that was measured on next to nothing
        // would make it seconds.
        let drain = sample.delivery_rate.time_for(sample.unacknowledged);
        self.drain = drain.unwrap_or_default().clamp(sample.rtt, sample.rtt * 2);
        let Some(min_rtt) = min_rtt else {
            *self = Self::default();
            return;
        };
        // The kernel renews the estimate only with a different value, save for rare coincidence.
        if self.seen.is_none_or(|seen| seen.min_rtt != min_rtt) {
            // A fresh connection's estimate is as old as its handshake.
            let after = self.last_sample.unwrap_or(now - UNCERTAINTY);
            self.seen = Some(Seen {
                min_rtt,
                after: after.max(now - UNCERTAINTY),
                before: now,
            });
            // Draining may have shown a lower time already: then the pause has done its work.
            self.holding = false;
        }
        self.last_sample = Some(now);
    }

    /// Whether the channel should be given nothing now. `in_flight`: what it was given and the
    /// peer's kernel has not acknowledged, asked only when it matters.
    pub fn holds(&mut self, now: Instant, in_flight: impl Fn() -> ByteCount) -> bool {
        let Some(seen) = self.seen else {
            return false;
        };
        let drain = self.drain;
        let expires = seen.before + WINDOW + SLACK;
        let begin = seen.after + WINDOW - drain - SLACK;
        if now >= expires + drain * 4 {
            // It came otherwise; what will be measured next is on its way.
            self.holding = false;
            return false;
        }
        self.holding = match self.holding {
            false if drain > LONGEST => false,
            false => now >= begin && now < expires && in_flight() > ByteCount::ZERO,
            true => now < expires || in_flight() > ByteCount::ZERO,
        };
        self.holding
    }
}

/// How long BBR trusts an estimate.
const WINDOW: Duration = Duration::from_secs(10);
/// Where draining takes longer than this, the probe costs no more than the pause.
const LONGEST: Duration = Duration::from_millis(300);
/// What the moment of a renewal may be off by: the handshake's and the join's round trips.
const UNCERTAINTY: Duration = Duration::from_millis(60);
/// The kernel counts in ticks of up to 4 ms.
const SLACK: Duration = Duration::from_millis(8);

#[cfg(test)]
mod tests {
    use hawser_types::Rate;

    use super::*;

    const RTT: Duration = Duration::from_millis(20);

    fn sample() -> KernelSample {
        KernelSample {
            rtt: RTT,
            ..KernelSample::default()
        }
    }

    fn busy() -> ByteCount {
        ByteCount::new(1)
    }

    fn idle() -> ByteCount {
        ByteCount::ZERO
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn refresh() -> RttRefresh {
        let mut refresh = RttRefresh::default();
        refresh.on_sample(at(0), &sample(), Some(RTT + RTT));
        refresh.on_sample(at(10), &sample(), Some(RTT));
        refresh
    }

    #[test]
    fn a_busy_channel_pauses_around_the_expiry_until_it_is_drained() {
        let mut refresh = refresh();
        assert!(!refresh.holds(at(9900), busy));
        assert!(refresh.holds(at(9975), busy));
        assert!(refresh.holds(at(10_000), idle));
        assert!(refresh.holds(at(10_010), busy));
        assert!(!refresh.holds(at(10_019), idle));
        refresh.on_sample(at(10_040), &sample(), Some(RTT + Duration::from_micros(3)));
        assert!(!refresh.holds(at(10_050), busy));
        assert!(refresh.holds(at(20_010), busy));
    }

    #[test]
    fn an_idle_channel_and_other_congestion_controls_never_pause() {
        let mut unused = refresh();
        assert!(!unused.holds(at(9980), idle));
        let mut other = refresh();
        other.on_sample(at(5), &sample(), None);
        assert!(!other.holds(at(9980), busy));
    }

    #[test]
    fn a_pause_ends_when_it_has_renewed_the_estimate() {
        let mut refresh = refresh();
        assert!(refresh.holds(at(9990), busy));
        refresh.on_sample(at(9995), &sample(), Some(RTT - Duration::from_micros(3)));
        assert!(!refresh.holds(at(9996), busy));
    }

    #[test]
    fn a_pause_ends_even_when_the_channel_never_drains() {
        let mut refresh = refresh();
        assert!(refresh.holds(at(9990), busy));
        assert!(!refresh.holds(at(10_100), busy));
    }

    #[test]
    fn a_rate_of_next_to_nothing_makes_no_long_pause() {
        let mut refresh = refresh();
        let mut idled = sample();
        idled.delivery_rate = Rate::from_bytes_per_second(5_000);
        idled.unacknowledged = ByteCount::new(20_000);
        refresh.on_sample(at(9000), &idled, Some(RTT));
        assert!(!refresh.holds(at(9900), busy));
        assert!(refresh.holds(at(9975), busy));
        assert!(!refresh.holds(at(10_250), busy));
    }
}
