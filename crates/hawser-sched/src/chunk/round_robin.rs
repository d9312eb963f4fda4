use hawser_types::{ChannelId, Instant};

use super::scheduler::usable;
use super::{ChunkPolicy, ChunkScheduler, ChunkUnit, Decision, Reason};
use crate::PathView;

/// Channels take turns, one chunk each, however fast they are: the slowest sets the pace.
///
/// Source: DBAS §II.D (packet-oriented round robin).
#[derive(Debug, Default)]
pub(super) struct RoundRobin {
    last: Option<ChannelId>,
}

impl ChunkScheduler for RoundRobin {
    fn select(&mut self, _now: Instant, _unit: ChunkUnit, paths: &[PathView]) -> Decision {
        let mut turn = usable(paths);
        let after = turn
            .clone()
            .find(|path| self.last.is_some_and(|last| path.channel > last));
        match after.or_else(|| turn.next()) {
            Some(path) if path.ready => {
                self.last = Some(path.channel);
                Decision::Channel(path.channel, Reason::Turn)
            }
            Some(_) => Decision::Wait(None, Reason::NotItsTurn),
            None => Decision::Wait(None, Reason::AllBusy),
        }
    }

    fn policy(&self) -> ChunkPolicy {
        ChunkPolicy::RoundRobin
    }
}
