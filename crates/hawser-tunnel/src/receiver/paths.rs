use std::time::Duration;

use hawser_types::{Instant, LinkIndex, PathId};

use super::lateness::Lateness;

/// State of a usable path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathDelay {
    /// The path.
    pub path: PathId,
    /// The link below it.
    pub link: LinkIndex,
    /// Its round-trip time, with queues; zero while unknown.
    pub rtt: Duration,
    /// Mean deviation of the round-trip time.
    pub variation: Duration,
}

/// The paths, with the highest place that each has delivered.
#[derive(Debug, Default)]
pub(super) struct Paths {
    known: Vec<Known>,
    /// The driver says which there are.
    are_set: bool,
}

#[derive(Debug)]
struct Known {
    id: PathId,
    highest: u64,
    delay: Option<PathDelay>,
    lateness: Lateness,
}

impl Paths {
    pub(super) fn on_place(&mut self, path: PathId, place: u64) {
        if let Some(known) = self.known.iter_mut().find(|known| known.id == path) {
            known.highest = known.highest.max(place);
        } else if !self.are_set && self.known.len() < MAX_PATHS {
            self.add(path, place);
        }
    }

    pub(super) fn set(&mut self, paths: &[PathDelay]) {
        self.are_set = true;
        let is_named = |id: PathId| paths.iter().any(|delay| delay.path == id);
        self.known.retain(|known| is_named(known.id));
        for delay in paths.iter().take(MAX_PATHS) {
            if self.find(delay.path).is_none() {
                self.add(delay.path, 0);
            }
            let known = self.known.iter_mut().find(|known| known.id == delay.path);
            if let Some(known) = known {
                known.delay = Some(*delay);
            }
        }
    }

    pub(super) fn on_lateness(&mut self, now: Instant, path: PathId, waited: Duration) {
        if let Some(known) = self.known.iter_mut().find(|known| known.id == path) {
            known.lateness.on_packet(now, waited);
        }
    }

    pub(super) fn highest(&self, path: PathId) -> Option<u64> {
        self.find(path).map(|known| known.highest)
    }

    /// The link below a path; `None` while the driver has not said.
    pub(super) fn link(&self, path: PathId) -> Option<LinkIndex> {
        Some(self.find(path)?.delay?.link)
    }

    /// The number that every usable path has reached; `None` without a path.
    pub(super) fn reached_by_all(&self) -> Option<u64> {
        self.known.iter().map(|known| known.highest).min()
    }

    /// Spread of the one-way delays and four times their jitter.
    pub(super) fn hold_limit(&self, most: Duration) -> Duration {
        let measured = self.known.iter().filter_map(|it| it.lateness.longest());
        let jitters = self.known.iter().map(|it| it.lateness.jitter());
        let delays = || self.known.iter().filter_map(|known| known.delay);
        let rtts = || delays().map(|it| it.rtt).filter(|rtt| !rtt.is_zero());
        let by_rtt = match (rtts().min(), rtts().max()) {
            (Some(least), Some(most)) if delays().count() > 1 => (most - least) / 2,
            _ => Duration::ZERO,
        };
        let spread = measured.max().unwrap_or(UNKNOWN_SPREAD).max(by_rtt);
        let jitter = jitters.chain(delays().map(|it| it.variation)).max();
        (spread + 4 * jitter.unwrap_or_default()).clamp(MIN_HOLD.min(most), most)
    }

    /// As [`Self::hold_limit`], of one path alone.
    pub(super) fn path_limit(&self, path: PathId, most: Duration) -> Duration {
        let delay = self.find(path).and_then(|known| known.delay);
        let variation = delay.map_or(Duration::ZERO, |delay| delay.variation);
        (4 * variation).clamp(MIN_HOLD.min(most), most)
    }

    /// How long it takes until a lost packet has come once more: the peer learns of the loss with a
    /// later packet's acknowledgement, and the packet takes another way.
    pub(super) fn repair_limit(&self, most: Duration) -> Duration {
        let delays = self.known.iter().filter_map(|known| known.delay);
        let known = delays.filter(|delay| !delay.rtt.is_zero());
        let longest = known.map(|it| it.rtt + it.rtt / 8 + 4 * it.variation).max();
        let repair = longest.unwrap_or(UNKNOWN_REPAIR) + MIN_HOLD;
        repair.min(most)
    }

    fn find(&self, path: PathId) -> Option<&Known> {
        self.known.iter().find(|known| known.id == path)
    }

    fn add(&mut self, id: PathId, highest: u64) {
        self.known.push(Known {
            id,
            highest,
            delay: None,
            lateness: Lateness::default(),
        });
    }
}

/// An association has fewer.
const MAX_PATHS: usize = 64;
/// Before anything was late: what links of one kind differ by.
const UNKNOWN_SPREAD: Duration = Duration::from_millis(50);
/// Before any round trip was measured.
const UNKNOWN_REPAIR: Duration = Duration::from_millis(100);
/// Timers and batches of system calls are not more exact.
const MIN_HOLD: Duration = Duration::from_millis(10);
