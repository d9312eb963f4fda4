//! Redundant duplication of messages, which avoids the delay of a retransmission.

use std::time::Duration;

use hawser_sched::chunk::is_copy_in_time;
use hawser_types::{Instant, PathId, Rate};

use crate::path::{Path, Paths};

/// Budget for duplicated bytes: a fixed rate, sufficient for a few calls, and a share of the data
/// sent. The owner may spend the share otherwise.
#[derive(Debug)]
pub(super) struct Budget {
    /// Bytes available from the fixed rate.
    by_time: u64,
    /// Bytes available from the share.
    by_share: u64,
    /// Total bytes taken from the share.
    charged: u64,
    /// Time up to which the fixed rate is credited.
    at: Instant,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            by_time: MOST,
            by_share: MOST,
            charged: 0,
            at: Instant::ZERO,
        }
    }
}

impl Budget {
    /// Credits the share for payload sent for the first time.
    pub(super) fn on_sent(&mut self, bytes: u64) {
        self.by_share = (self.by_share + bytes / SHARE).min(MOST);
    }

    /// Takes this many bytes from the budget; `false` if it has fewer.
    pub(super) fn spend(&mut self, now: Instant, bytes: u64) -> bool {
        let earned = (RATE * now.since(self.at)).as_u64();
        if earned > 0 {
            self.by_time = (self.by_time + earned).min(MOST);
            self.at = now;
        }
        let charged = bytes.saturating_sub(self.by_time);
        let allowed = charged <= self.by_share;
        if allowed {
            self.by_time -= bytes - charged;
            self.by_share -= charged;
            self.charged += charged;
        }
        allowed
    }

    /// Returns the total bytes taken from the share.
    pub(super) fn charged(&self) -> u64 {
        self.charged
    }
}

/// Returns the path for copies of what leaves on the path `first`: the fastest other path, if it
/// takes about as long; else the same path, if it loses packets; else the fastest other path whose
/// copy is in time.
///
/// A copy on the same path arrives sooner than one on a far path, but does not help if the path has
/// failed.
pub(super) fn second_path(now: Instant, paths: &mut Paths, first: PathId) -> Option<PathId> {
    let path = paths.path(first)?;
    let loses = path.flight.loss() >= LOSSY;
    let rtt = path.rtt.smoothed()?;
    let views = paths.views(now, |path| path.is_ready(now));
    let others = views
        .iter()
        .map(|view| (Path::of_channel(view.channel), view))
        .filter(|(path, view)| *path != first && view.ready && !view.suspect);
    let (other, second) = others
        .map(|(path, view)| (path, view.rtt))
        .min_by_key(|(_, rtt)| *rtt)
        .unzip();
    let is_like = second.is_some_and(|second| second <= rtt * 2 + MARGIN);
    let is_in_time = second.is_some_and(|second| is_copy_in_time(rtt, second));
    let same = loses.then_some(first);
    if is_like {
        other
    } else if is_in_time {
        same.or(other)
    } else {
        same
    }
}

/// Share of bytes that may be duplicated: one in this many …
const SHARE: u64 = 50;
/// … after a fixed rate, sufficient for a few calls …
const RATE: Rate = Rate::from_bits_per_second(256_000);
/// … with at most this many bytes saved up of each.
const MOST: u64 = 32 * 1024;
/// Loss rate from which copies on the same path are worth a packet.
const LOSSY: f64 = 0.003;
/// Tolerance for very short round-trip times.
const MARGIN: Duration = Duration::from_millis(5);
