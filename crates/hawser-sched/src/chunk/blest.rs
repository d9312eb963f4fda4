use hawser_types::Instant;

use super::scheduler::usable;
use super::{ChunkPolicy, ChunkScheduler, ChunkUnit, Decision, Reason};
use crate::PathView;

/// Blocking estimation: the quickest channel; while that is busy, the quickest that is ready,
/// unless a chunk on it would fill the window before it is acknowledged and so stop the quickest.
///
/// During one round trip R_s of the slow channel the fast one sends, window by window, X = (W_f + S
/// · (r − 1) / 2) · r bytes, where r = R_s / R_f and S is a segment: a window that grows by a
/// segment for each round trip. The slow channel is passed over when λ · X > M − (in flight on it +
/// the chunk), where M is all that may be in flight at once.
///
/// λ corrects the estimate: chunks that had to be sent again within the last round trip of the slow
/// channel raise it by 0.04, else it falls by 0.01, between 1 and 1.3 and from 1.2, which are the
/// values of the authors' implementation.
///
/// Source: S. Ferlin, Ö. Alay, O. Mehani, R. Boreli, *BLEST: Blocking Estimation-based MPTCP
/// Scheduler for Heterogeneous Networks*, IFIP Networking 2016, §III.
#[derive(Debug)]
pub(super) struct Blest {
    lambda: f64,
    corrected_at: Instant,
    /// A chunk was sent again since λ was last corrected.
    sent_again: bool,
}

impl Default for Blest {
    fn default() -> Self {
        Self {
            lambda: FIRST_LAMBDA,
            corrected_at: Instant::ZERO,
            sent_again: false,
        }
    }
}

impl ChunkScheduler for Blest {
    fn select(&mut self, now: Instant, unit: ChunkUnit, paths: &[PathView]) -> Decision {
        let key = |path: &&PathView| (path.rtt, path.channel);
        let fast = usable(paths).min_by_key(key);
        let ready = usable(paths).filter(|path| path.ready).min_by_key(key);
        self.sent_again |= unit.again;
        let (Some(fast), Some(ready)) = (fast, ready) else {
            return Decision::Wait(None, Reason::AllBusy);
        };
        if fast.channel == ready.channel {
            return Decision::Channel(fast.channel, Reason::LeastRtt);
        }
        self.correct(now, ready);
        if self.would_block(unit, fast, ready, paths) {
            return Decision::Wait(None, Reason::WouldBlock);
        }
        Decision::Channel(ready.channel, Reason::Writable)
    }

    fn policy(&self) -> ChunkPolicy {
        ChunkPolicy::Blest
    }
}

impl Blest {
    fn correct(&mut self, now: Instant, slow: &PathView) {
        if now.since(self.corrected_at) < slow.rtt {
            return;
        }
        self.corrected_at = now;
        let step = if std::mem::take(&mut self.sent_again) {
            0.04
        } else {
            -0.01
        };
        self.lambda = (self.lambda + step).clamp(MIN_LAMBDA, MAX_LAMBDA);
    }

    fn would_block(
        &self,
        unit: ChunkUnit,
        fast: &PathView,
        slow: &PathView,
        paths: &[PathView],
    ) -> bool {
        let Some(room) = unit.room else {
            return false;
        };
        let in_flight: u64 = paths.iter().map(|path| path.in_flight.as_u64()).sum();
        let window = (room.as_u64() + in_flight) as f64;
        let held = (slow.in_flight + unit.size.min(slow.chunk)).as_u64() as f64;
        let round_trips = slow.rtt.as_secs_f64() / fast.rtt.as_secs_f64().max(1e-6);
        let growth = SEGMENT * (round_trips - 1.0) / 2.0;
        let fast_bytes = (fast.window() + growth) * round_trips;
        self.lambda * fast_bytes > window - held
    }
}

const SEGMENT: f64 = 1448.0;
const FIRST_LAMBDA: f64 = 1.2;
const MIN_LAMBDA: f64 = 1.0;
const MAX_LAMBDA: f64 = 1.3;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hawser_types::{ByteCount, ChannelId};

    use super::*;

    fn path(channel: u32, rtt: u64, ready: bool) -> PathView {
        PathView {
            channel: ChannelId::new(channel),
            ready,
            rtt: Duration::from_millis(rtt),
            congestion_window: ByteCount::new(14_480),
            ..PathView::default()
        }
    }

    fn unit(room: Option<u64>) -> ChunkUnit {
        ChunkUnit {
            size: ByteCount::new(1448),
            room: room.map(ByteCount::new),
            ..ChunkUnit::default()
        }
    }

    const SLOW: Decision = Decision::Channel(ChannelId::new(2), Reason::Writable);
    const WAIT: Decision = Decision::Wait(None, Reason::WouldBlock);

    /// r = 100 / 20 = 5, X = (10 + (5 − 1) / 2) · 5 = 60 segments. With λ = 1.19 (1.2 less one
    /// step) a window of 71.4 segments and the chunk itself is the boundary.
    #[test]
    fn the_slow_path_is_passed_over_when_the_fast_one_would_run_out_of_window() {
        let now = Instant::from_nanos(1_000_000_000);
        let paths = [path(1, 20, false), path(2, 100, true)];
        let at = |segments: f64| Some((segments * 1448.0) as u64);
        let select = |room| Blest::default().select(now, unit(room), &paths);
        assert_eq!(select(at(72.3)), WAIT);
        assert_eq!(select(at(72.5)), SLOW);
        assert_eq!(select(None), SLOW);
        let ready = [path(1, 20, true), path(2, 100, true)];
        let fast = Decision::Channel(ChannelId::new(1), Reason::LeastRtt);
        assert_eq!(Blest::default().select(now, unit(at(1.0)), &ready), fast);
    }

    #[test]
    fn what_is_in_flight_counts_as_window_and_on_the_slow_path_as_held() {
        let now = Instant::from_nanos(1_000_000_000);
        let mut paths = [path(1, 20, false), path(2, 100, true)];
        paths[0].in_flight = ByteCount::new(73 * 1448);
        assert_eq!(Blest::default().select(now, unit(Some(0)), &paths), SLOW);
        paths[0].in_flight = ByteCount::ZERO;
        paths[1].in_flight = ByteCount::new(73 * 1448);
        assert_eq!(Blest::default().select(now, unit(Some(0)), &paths), WAIT);
    }

    #[test]
    fn lambda_follows_what_had_to_be_sent_again_once_for_each_round_trip() {
        let paths = [path(1, 20, false), path(2, 100, true)];
        let mut blest = Blest::default();
        let again = ChunkUnit {
            again: true,
            ..unit(None)
        };
        let mut now = Instant::ZERO;
        for _ in 0..10 {
            now += Duration::from_millis(100);
            blest.select(now, again, &paths);
            blest.select(now, again, &paths);
        }
        assert_eq!(blest.lambda, MAX_LAMBDA);
        for _ in 0..200 {
            now += Duration::from_millis(50);
            blest.select(now, unit(None), &paths);
        }
        assert_eq!(blest.lambda, MIN_LAMBDA);
    }
}
