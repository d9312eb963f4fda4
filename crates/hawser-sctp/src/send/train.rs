use std::time::Duration;

use hawser_types::{ByteCount, Instant, PathId};

use crate::path::{Path, Paths};

/// A packet train: consecutive packets on one path, by one decision of the policy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Train {
    path: PathId,
    /// Instant at which all of them leave; later, the decision may be outdated.
    now: Instant,
    /// Bytes in flight on the path at the end of the train.
    end: ByteCount,
}

impl Train {
    /// Starts a packet train after a decision of `auto`: data that the path carries in a negligible
    /// time follows on it, so that the peer gets chunks in rows instead of alternating between
    /// paths. `None` if that is no more than a packet.
    pub(super) fn begin(now: Instant, path: &Path) -> Option<Self> {
        let span = (path.rtt.smoothed()? / PART_OF_ROUND_TRIP).min(LONGEST);
        let bytes = path.delivery_rate() * span;
        let train = Self {
            path: path.id,
            now,
            end: path.flight.bytes() + bytes,
        };
        (bytes > ByteCount::from(path.packet_size)).then_some(train)
    }

    /// Returns the path of the train.
    pub(super) fn path(&self) -> PathId {
        self.path
    }

    /// Tells whether the next packet belongs to the train.
    pub(super) fn goes_on(&self, now: Instant, paths: &Paths) -> bool {
        let path = paths.path(self.path).filter(|_| self.now == now);
        path.is_some_and(|path| path.flight.bytes() < self.end && path.is_ready(now))
    }
}

/// Length of a train as a fraction of a round trip (1/16), and its maximum. A policy could gain
/// less within it than the uncertainty of its estimates.
const PART_OF_ROUND_TRIP: u32 = 16;
const LONGEST: Duration = Duration::from_micros(50);
