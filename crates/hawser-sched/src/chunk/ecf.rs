use std::time::Duration;

use hawser_types::Instant;

use super::scheduler::usable;
use super::{ChunkPolicy, ChunkScheduler, ChunkUnit, Decision, Reason};
use crate::PathView;

/// Earliest completion first: the quickest channel; while that is busy, the quickest that is ready,
/// unless everything that waits would be over sooner by waiting for the quickest.
///
/// With k bytes waiting, windows W and round-trip times R of the fast channel f and the slow s,
/// and δ the larger of their standard deviations, it waits when both hold:
///
/// - (1 + k / W_f) · R_f < (1 + β) · (R_s + δ), with β = 0.25 once it waits and 0 before;
/// - k / W_s · R_s ≥ 2 · R_f + δ.
///
/// In both, k counts as one window at least, as in the authors' own implementation: sending takes
/// one round trip however little there is. The kernel gives the mean deviation μ; for normal noise
/// the standard deviation is 1.25 μ.
///
/// Source: Y. Lim, E. Nahum, D. Towsley, R. Gibbens, *ECF: An MPTCP Path Scheduler to Manage
/// Heterogeneous Paths*, CoNEXT 2017, algorithm 1.
#[derive(Debug, Default)]
pub(super) struct Ecf {
    waiting: bool,
}

impl ChunkScheduler for Ecf {
    fn select(&mut self, _now: Instant, unit: ChunkUnit, paths: &[PathView]) -> Decision {
        let key = |path: &&PathView| (path.rtt, path.channel);
        let fast = usable(paths).min_by_key(key);
        let ready = usable(paths).filter(|path| path.ready).min_by_key(key);
        let (Some(fast), Some(ready)) = (fast, ready) else {
            return Decision::Wait(None, Reason::AllBusy);
        };
        if fast.channel == ready.channel {
            return Decision::Channel(fast.channel, Reason::LeastRtt);
        }
        if self.waits(unit, fast, ready) {
            return Decision::Wait(None, Reason::QuickerSoon);
        }
        Decision::Channel(ready.channel, Reason::Writable)
    }

    fn policy(&self) -> ChunkPolicy {
        ChunkPolicy::Ecf
    }
}

impl Ecf {
    fn waits(&mut self, unit: ChunkUnit, fast: &PathView, slow: &PathView) -> bool {
        let waiting = unit.size.as_u64() as f64;
        let seconds = |time: Duration| time.as_secs_f64();
        let deviation = seconds(fast.rtt_variation.max(slow.rtt_variation)) * 1.25;
        let windows = |path: &PathView| (waiting / path.window()).max(1.0);
        let margin = if self.waiting { 1.0 + BETA } else { 1.0 };
        let by_fast = (1.0 + windows(fast)) * seconds(fast.rtt);
        if by_fast < margin * (seconds(slow.rtt) + deviation) {
            let by_slow = windows(slow) * seconds(slow.rtt);
            let waits = by_slow >= 2.0 * seconds(fast.rtt) + deviation;
            self.waiting |= waits;
            return waits;
        }
        self.waiting = false;
        false
    }
}

/// Value that the authors found to work: low ones switch to and fro, high ones idle the slow path.
const BETA: f64 = 0.25;

#[cfg(test)]
mod tests {
    use hawser_types::{ByteCount, ChannelId};

    use super::*;

    const SEGMENT: u64 = 1448;

    /// A channel with a window of ten segments.
    fn path(channel: u32, rtt: u64, ready: bool) -> PathView {
        PathView {
            channel: ChannelId::new(channel),
            ready,
            rtt: Duration::from_millis(rtt),
            congestion_window: ByteCount::new(10 * SEGMENT),
            ..PathView::default()
        }
    }

    fn select(ecf: &mut Ecf, segments: u64, paths: &[PathView]) -> Decision {
        let unit = ChunkUnit {
            size: ByteCount::new(segments * SEGMENT),
            ..ChunkUnit::default()
        };
        ecf.select(Instant::ZERO, unit, paths)
    }

    const WAIT: Decision = Decision::Wait(None, Reason::QuickerSoon);

    const fn to(channel: u32, reason: Reason) -> Decision {
        Decision::Channel(ChannelId::new(channel), reason)
    }

    /// The paper's motivation (§3): round trips of 10 and 100 ms, windows of ten segments, eleven
    /// to send. The eleventh goes out 90 ms sooner by waiting for the fast path.
    #[test]
    fn the_last_of_eleven_segments_waits_for_the_fast_path() {
        let ecf = &mut Ecf::default();
        let open = [path(1, 10, true), path(2, 100, true)];
        assert_eq!(select(ecf, 11, &open), to(1, Reason::LeastRtt));
        let full = [path(1, 10, false), path(2, 100, true)];
        assert_eq!(select(ecf, 1, &full), WAIT);
    }

    /// (1 + k/10) · 10 ms < 100 ms holds up to k = 89 segments; with β, up to 114.
    #[test]
    fn the_boundary_is_the_papers_and_waiting_moves_it_by_a_quarter() {
        let full = [path(1, 10, false), path(2, 100, true)];
        let ecf = &mut Ecf::default();
        assert_eq!(select(ecf, 90, &full), to(2, Reason::Writable));
        assert_eq!(select(ecf, 89, &full), WAIT);
        assert_eq!(select(ecf, 114, &full), WAIT);
        assert_eq!(select(ecf, 115, &full), to(2, Reason::Writable));
        assert_eq!(select(ecf, 114, &full), to(2, Reason::Writable));
    }

    /// The second condition: with round trips of 10 and 19 ms the slow path is over before the fast
    /// one could be twice.
    #[test]
    fn a_slow_path_that_is_nearly_as_quick_is_used() {
        let full = [path(1, 10, false), path(2, 19, true)];
        assert_eq!(
            select(&mut Ecf::default(), 1, &full),
            to(2, Reason::Writable)
        );
        let full = [path(1, 10, false), path(2, 21, true)];
        assert_eq!(select(&mut Ecf::default(), 1, &full), WAIT);
    }

    /// δ = 1.25 · 20 ms: now 2 · 10 + 25 = 45 ms is more than one round trip of the slow path.
    #[test]
    fn noise_speaks_for_the_slow_path() {
        let mut full = [path(1, 10, false), path(2, 40, true)];
        assert_eq!(select(&mut Ecf::default(), 1, &full), WAIT);
        full[1].rtt_variation = Duration::from_millis(20);
        assert_eq!(
            select(&mut Ecf::default(), 1, &full),
            to(2, Reason::Writable)
        );
    }
}
