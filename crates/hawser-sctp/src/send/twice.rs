//! Messages that are sent twice at once, since the sender would rather spend bytes than wait for a loss
//! to be noticed.

use std::time::Duration;

use hawser_types::{Instant, PathId, Rate};
use smallvec::SmallVec;

use super::Outbound;
use super::choose::{is_ready, path_of};
use super::transmit::Filling;
use crate::path::Paths;

/// How many bytes may be sent twice: what a few calls take at any time, and a part of what is sent, which
/// the owner may spend otherwise.
#[derive(Debug)]
pub(super) struct Budget {
    /// Of what time earns.
    by_time: u64,
    /// Of what is sent.
    by_share: u64,
    /// What was taken of the latter so far.
    charged: u64,
    /// Until when time is counted in.
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
    /// So much payload is sent for the first time.
    pub(super) fn on_sent(&mut self, bytes: u64) {
        self.by_share = (self.by_share + bytes / SHARE).min(MOST);
    }

    fn spend(&mut self, now: Instant, bytes: u64) -> bool {
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

    /// What counts as a part of what was sent.
    pub(super) fn charged(&self) -> u64 {
        self.charged
    }
}

impl Outbound {
    /// Where the chunks of a packet go once more that are worth it, and which they are.
    pub(super) fn choose_second(
        &mut self,
        now: Instant,
        paths: &mut Paths,
        filling: &Filling,
    ) -> Option<(PathId, SmallVec<[u64; 2]>)> {
        if filling.twice.is_empty() {
            return None;
        }
        let second = second_path(now, paths, filling.path)?;
        let bytes = filling.twice.iter().filter_map(|it| self.window.get(*it));
        let bytes = bytes.map(|record| record.data.payload.len() as u64).sum();
        let allowed = self.budget.spend(now, bytes);
        allowed.then(|| (second, filling.twice.clone()))
    }
}

/// The quickest other path, unless it would be so late that a repetition is sooner; else the same path, if
/// it loses packets.
fn second_path(now: Instant, paths: &mut Paths, first: PathId) -> Option<PathId> {
    let path = paths.path(first)?;
    let loses = path.flight.loss() >= LOSSY;
    let latest = path.rtt.smoothed()? * 2 + MARGIN;
    let views = paths.views(now, |path| is_ready(now, path));
    let others = views.iter().filter(|view| {
        path_of(view.channel) != first && view.ready && !view.suspect && view.rtt <= latest
    });
    let other = others.min_by_key(|view| view.rtt);
    other
        .map(|view| path_of(view.channel))
        .or(loses.then_some(first))
}

/// At most one byte in this many is sent twice …
const SHARE: u64 = 50;
/// … and before those, what a few calls take …
const RATE: Rate = Rate::from_bits_per_second(256_000);
/// … and no more of either at once than this.
const MOST: u64 = 32 * 1024;
/// A path that loses less is not worth a second packet.
const LOSSY: f64 = 0.003;
/// Round trips of no length vary by as much.
const MARGIN: Duration = Duration::from_millis(5);
