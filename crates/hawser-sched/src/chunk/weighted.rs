use std::collections::BTreeMap;

use hawser_types::{ChannelId, Instant};

use super::scheduler::usable;
use super::{ChunkPolicy, ChunkScheduler, ChunkUnit, Decision, Reason};
use crate::PathView;

/// Channels take turns in proportion to their delivery rate times the user's weight.
///
/// Each channel keeps a virtual finishing time that a chunk advances by its size over the
/// channel's share; the lowest is next. Strict as round robin: when the next one is busy, the
/// chunk waits for it.
///
/// Source: DBAS §II.D (packet-oriented weighted round robin).
#[derive(Debug, Default)]
pub(super) struct WeightedRoundRobin {
    finish: BTreeMap<ChannelId, f64>,
}

impl ChunkScheduler for WeightedRoundRobin {
    fn select(&mut self, _now: Instant, unit: ChunkUnit, paths: &[PathView]) -> Decision {
        self.finish
            .retain(|channel, _| paths.iter().any(|path| path.channel == *channel));
        // A newcomer starts level with the one that is furthest behind, not with a debt.
        let floor = self.finish.values().copied().fold(f64::INFINITY, f64::min);
        let floor = if floor.is_finite() { floor } else { 0.0 };
        for path in paths {
            self.finish.entry(path.channel).or_insert(floor);
        }
        let time = |path: &PathView| *self.finish.get(&path.channel).unwrap_or(&floor);
        match usable(paths).min_by(|a, b| time(a).total_cmp(&time(b))) {
            Some(path) if path.ready => {
                let rate = path.rate.bytes_per_second();
                // A channel whose rate is not known yet counts like one of 1 Mbit/s.
                let rate = if rate == 0 { UNKNOWN_RATE } else { rate };
                let share = (rate as f64 * path.weight).max(1.0);
                let cost = unit.size.min(path.chunk).as_u64().max(1) as f64 / share;
                *self.finish.entry(path.channel).or_insert(floor) += cost;
                Decision::Channel(path.channel, Reason::Turn)
            }
            Some(_) => Decision::Wait(None, Reason::NotItsTurn),
            None => Decision::Wait(None, Reason::AllBusy),
        }
    }

    fn policy(&self) -> ChunkPolicy {
        ChunkPolicy::WeightedRoundRobin
    }
}

const UNKNOWN_RATE: u64 = 125_000;
