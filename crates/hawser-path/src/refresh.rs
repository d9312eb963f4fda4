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

/// Follows one connection's estimate of the lowest round-trip time, and says when to pause.
#[derive(Debug, Default)]
pub struct RttRefresh {
    seen: Option<Seen>,
    last_sample: Option<Instant>,
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
    /// Takes in BBR's estimate; `None` for another congestion control.
    pub fn on_sample(&mut self, now: Instant, min_rtt: Option<Duration>) {
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

    /// Whether the channel should be given nothing now. `drain`: how long what it was given takes
    /// to be acknowledged; `in_flight`: how much that is, asked only when it matters.
    pub fn holds(
        &mut self,
        now: Instant,
        drain: Duration,
        in_flight: impl Fn() -> ByteCount,
    ) -> bool {
        let Some(seen) = self.seen else {
            return false;
        };
        let expires = seen.before + WINDOW + SLACK;
        let begin = seen.after + WINDOW - drain - SLACK;
        if now >= expires + drain * 4 {
            // It came otherwise; what will be measured next is on its way.
            self.holding = false;
            return false;
        }
        self.holding = match self.holding {
            false => now >= begin && now < expires && in_flight() > ByteCount::ZERO,
            true => now < expires || in_flight() > ByteCount::ZERO,
        };
        self.holding
    }
}

/// How long BBR trusts an estimate.
const WINDOW: Duration = Duration::from_secs(10);
/// What the moment of a renewal may be off by: the handshake's and the join's round trips.
const UNCERTAINTY: Duration = Duration::from_millis(60);
/// The kernel counts in ticks of up to 4 ms.
const SLACK: Duration = Duration::from_millis(8);

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(20);

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
        refresh.on_sample(at(0), Some(RTT + RTT));
        refresh.on_sample(at(10), Some(RTT));
        refresh
    }

    #[test]
    fn a_busy_channel_pauses_around_the_expiry_until_it_is_drained() {
        let mut refresh = refresh();
        assert!(!refresh.holds(at(9900), RTT, busy));
        assert!(refresh.holds(at(9975), RTT, busy));
        assert!(refresh.holds(at(10_000), RTT, idle));
        assert!(refresh.holds(at(10_010), RTT, busy));
        assert!(!refresh.holds(at(10_019), RTT, idle));
        refresh.on_sample(at(10_040), Some(RTT + Duration::from_micros(3)));
        assert!(!refresh.holds(at(10_050), RTT, busy));
        assert!(refresh.holds(at(20_010), RTT, busy));
    }

    #[test]
    fn an_idle_channel_and_other_congestion_controls_never_pause() {
        let mut unused = refresh();
        assert!(!unused.holds(at(9980), RTT, idle));
        let mut other = refresh();
        other.on_sample(at(5), None);
        assert!(!other.holds(at(9980), RTT, busy));
    }

    #[test]
    fn a_pause_ends_when_it_has_renewed_the_estimate() {
        let mut refresh = refresh();
        assert!(refresh.holds(at(9990), RTT, busy));
        refresh.on_sample(at(9995), Some(RTT - Duration::from_micros(3)));
        assert!(!refresh.holds(at(9996), RTT, busy));
    }

    #[test]
    fn a_pause_ends_even_when_the_channel_never_drains() {
        let mut refresh = refresh();
        assert!(refresh.holds(at(9990), RTT, busy));
        assert!(!refresh.holds(at(10_100), RTT, busy));
    }
}
