//! Spares bulk channels BBR's RTT probe.
//!
//! When BBR has seen no lower round-trip time for ten seconds it cuts its window to four packets
//! for 200 ms, to drain the queue and measure afresh: two to four per cent of a link. The probe is
//! skipped when the connection happens to be idle at that moment, since then the next packet
//! measures just as well. So the channel is given nothing for the one round trip around that
//! moment, in which its chunks go over other links. It may begin again before that moment, as long
//! as what it sends first is acknowledged after it.
//!
//! Source: Linux `net/ipv4/tcp_bbr.c`, `bbr_update_min_rtt` (the condition on `idle_restart`).

use std::time::Duration;

use hawser_path::KernelSample;
use hawser_types::{ByteCount, Instant};

/// Follows one connection's estimate of the lowest round-trip time, and says when to pause.
#[derive(Debug, Default)]
pub struct RttRefresh {
    seen: Option<RttSample>,
    last_sample: Option<Instant>,
    /// Segments sent again by the last sample, and when there were more of them than before.
    retransmissions: u64,
    lost_at: Option<Instant>,
    /// How long what the channel was given takes to be acknowledged.
    drain: Duration,
    pause: Pause,
}

/// How far the pause for the present estimate has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Pause {
    #[default]
    Due,
    Running,
    Over,
}

#[derive(Clone, Copy, Debug)]
struct RttSample {
    min_rtt: Duration,
    /// The estimate was last renewed after this …
    after: Instant,
    /// … and before this.
    before: Instant,
}

impl RttRefresh {
    /// Takes in what the kernel says.
    pub fn on_sample(&mut self, now: Instant, sample: &KernelSample) {
        // BBR's window is two round trips' worth. A rate that was measured on next to nothing
        // would make it seconds.
        let drain = sample.delivery_rate.time_for(sample.unacknowledged);
        self.drain = drain.unwrap_or_default().clamp(sample.rtt, sample.rtt * 2);
        let Some(min_rtt) = sample.bbr_min_rtt else {
            *self = Self {
                last_sample: Some(now),
                ..Self::default()
            };
            return;
        };
        // The kernel renews the estimate only with a different value, save for rare coincidence.
        if self.seen.is_none_or(|seen| seen.min_rtt != min_rtt) {
            // Only an acknowledgement renews it, or the moment at which bbr was chosen. A fresh
            // connection's is as old as its handshake.
            let acknowledged = now - sample.since_ack;
            let after = self.last_sample.unwrap_or(acknowledged - UNCERTAINTY);
            let before = acknowledged.max(after);
            self.seen = Some(RttSample {
                min_rtt,
                after: after.max(before - sample.rtt.max(UNCERTAINTY)),
                before,
            });
            // Draining may have shown a lower time already: then the pause has done its work.
            self.pause = Pause::Due;
        }
        self.last_sample = Some(now);
        if sample.retransmissions > self.retransmissions {
            self.lost_at = Some(now);
        }
        self.retransmissions = sample.retransmissions;
        // The last segments may have to be sent again.
        if self
            .lost_at
            .is_some_and(|at| now.since(at) <= sample.rtt * LATELY)
        {
            self.drain += sample.rtt;
        }
    }

    /// Whether the channel should be given nothing now. `in_flight`: what it was given and the
    /// peer's kernel has not acknowledged, asked only when it matters.
    pub fn holds(&mut self, now: Instant, in_flight: impl Fn() -> ByteCount) -> bool {
        let Some(seen) = self.seen else {
            return false;
        };
        let (drain, rtt) = (self.drain, seen.min_rtt);
        let expires = seen.before + WINDOW + SLACK;
        let begin = seen.after + WINDOW - drain - LATE;
        let costs_less = drain < rtt + rtt.max(PROBE);
        self.pause = match self.pause {
            Pause::Due if !costs_less || now < begin || now >= expires => Pause::Due,
            Pause::Due if in_flight() <= FEW_BYTES => Pause::Due,
            Pause::Due => Pause::Running,
            // It came otherwise; what will be measured next is on its way.
            Pause::Running if now >= expires + drain * 4 => Pause::Over,
            Pause::Running if now + rtt < expires || in_flight() > ByteCount::ZERO => {
                Pause::Running
            }
            Pause::Running | Pause::Over => Pause::Over,
        };
        self.pause == Pause::Running
    }
}

/// How long BBR trusts an estimate.
const WINDOW: Duration = Duration::from_secs(10);
/// How long bbr probes, at least; it drains before.
const PROBE: Duration = Duration::from_millis(200);
/// Time by which draining may exceed the estimate: the peer's kernel delays its last
/// acknowledgement, and the writer looks up when it is woken.
const LATE: Duration = Duration::from_millis(20);
/// For so many round trips a loss makes another one likely.
const LATELY: u32 = 8;
/// Bytes that bbr keeps in flight even while it probes: with less there is nothing to spare.
const FEW_BYTES: ByteCount = ByteCount::new(4 * 1448);
/// Error of the moment of a renewal: the handshake's and the join's round trips. Subtracted, since
/// a longer pause would cost more than a probe.
const UNCERTAINTY: Duration = Duration::from_millis(60);
/// The kernel counts in ticks of up to 4 ms.
const SLACK: Duration = Duration::from_millis(8);

#[cfg(test)]
mod tests {
    use hawser_types::Rate;

    use super::*;

    const RTT: Duration = Duration::from_millis(20);

    fn sample(min_rtt: Option<Duration>) -> KernelSample {
        KernelSample {
            rtt: RTT,
            bbr_min_rtt: min_rtt,
            ..KernelSample::default()
        }
    }

    fn busy() -> ByteCount {
        ByteCount::new(10_000)
    }

    fn idle() -> ByteCount {
        ByteCount::ZERO
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn refresh() -> RttRefresh {
        let mut refresh = RttRefresh::default();
        refresh.on_sample(at(0), &sample(Some(RTT + RTT)));
        refresh.on_sample(at(10), &sample(Some(RTT)));
        refresh
    }

    #[test]
    fn a_busy_channel_drains_before_the_expiry_and_what_it_sends_then_arrives_after_it() {
        let mut refresh = refresh();
        assert!(!refresh.holds(at(9955), busy));
        assert!(refresh.holds(at(9965), busy));
        assert!(refresh.holds(at(9995), idle));
        assert!(refresh.holds(at(9999), busy));
        assert!(!refresh.holds(at(10_000), idle));
        // It is busy again before the expiry, and has done what it could.
        assert!(!refresh.holds(at(10_005), busy));
        refresh.on_sample(at(10_040), &sample(Some(RTT + Duration::from_micros(3))));
        assert!(!refresh.holds(at(10_050), busy));
        assert!(refresh.holds(at(20_010), busy));
    }

    #[test]
    fn losses_make_draining_begin_earlier_and_long_pauses_are_left_to_bbr() {
        let mut lossy = sample(Some(RTT));
        lossy.retransmissions = 1;
        let mut refresh = refresh();
        refresh.on_sample(at(9900), &lossy);
        assert!(refresh.holds(at(9945), busy));
        // One of the first moments says nothing of the last ones.
        let mut refresh = self::refresh();
        refresh.on_sample(at(20), &lossy);
        refresh.on_sample(at(9900), &lossy);
        assert!(!refresh.holds(at(9945), busy));

        let mut long = sample(Some(RTT));
        long.rtt = Duration::from_millis(230);
        let mut refresh = self::refresh();
        refresh.on_sample(at(20), &long);
        assert!(!refresh.holds(at(9990), busy));
    }

    #[test]
    fn the_last_acknowledgement_dates_the_estimate_of_a_channel_that_rested() {
        let mut refresh = refresh();
        let mut rested = sample(Some(RTT - Duration::from_micros(3)));
        rested.since_ack = Duration::from_millis(4970);
        refresh.on_sample(at(5000), &rested);
        assert!(refresh.holds(at(9975), busy));
        assert!(!refresh.holds(at(10_020), idle));
    }

    #[test]
    fn an_idle_channel_and_other_congestion_controls_never_pause() {
        let mut unused = refresh();
        assert!(!unused.holds(at(9980), idle));
        let mut other = refresh();
        other.on_sample(at(5), &sample(None));
        assert!(!other.holds(at(9980), busy));
    }

    #[test]
    fn a_pause_ends_when_it_has_renewed_the_estimate() {
        let mut refresh = refresh();
        assert!(refresh.holds(at(9990), busy));
        refresh.on_sample(at(9995), &sample(Some(RTT - Duration::from_micros(3))));
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
        let mut idled = sample(Some(RTT));
        idled.delivery_rate = Rate::from_bytes_per_second(5_000);
        idled.unacknowledged = ByteCount::new(20_000);
        refresh.on_sample(at(9000), &idled);
        assert!(!refresh.holds(at(9900), busy));
        assert!(refresh.holds(at(9975), busy));
        assert!(!refresh.holds(at(10_250), busy));
    }
}
