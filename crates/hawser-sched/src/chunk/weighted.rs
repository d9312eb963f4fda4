use hawser_types::Instant;

use super::scheduler::usable;
use super::{ChunkPolicy, ChunkScheduler, ChunkUnit, Decision, Reason};
use crate::PathView;
use crate::turns::ByteTurns;

/// Channels take turns in proportion to their delivery rate times the user's weight.
///
/// Strict as round robin: when the next one is busy, the chunk waits for it ([`ByteTurns`]).
///
/// Source: DBAS §II.D (packet-oriented weighted round robin).
#[derive(Debug, Default)]
pub(super) struct WeightedRoundRobin(ByteTurns);

impl ChunkScheduler for WeightedRoundRobin {
    fn select(&mut self, _now: Instant, unit: ChunkUnit, paths: &[PathView]) -> Decision {
        let cost = |path: &PathView| unit.size.min(path.chunk).as_u64().max(1) as f64 / share(path);
        match self.0.take(paths.iter(), usable(paths), cost) {
            Some(path) if path.ready => Decision::Channel(path.channel, Reason::Turn),
            Some(_) => Decision::Wait(None, Reason::NotItsTurn),
            None => Decision::Wait(None, Reason::AllBusy),
        }
    }

    fn policy(&self) -> ChunkPolicy {
        ChunkPolicy::WeightedRoundRobin
    }
}

/// A channel whose rate is not known yet counts like one of 1 Mbit/s.
fn share(path: &PathView) -> f64 {
    let rate = path.rate.bytes_per_second();
    let rate = if rate == 0 { UNKNOWN_RATE } else { rate };
    (rate as f64 * path.weight).max(1.0)
}

const UNKNOWN_RATE: u64 = 125_000;
