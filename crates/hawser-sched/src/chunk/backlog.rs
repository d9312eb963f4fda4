use hawser_types::{ChannelId, Instant};

use super::scheduler::usable;
use super::{ChunkPolicy, ChunkScheduler, ChunkUnit, Decision, Reason};
use crate::PathView;

/// Any channel that can accept data gets the next chunk, so that every channel is always busy; in
/// the steady state channel *i* carries B_i / B_total of the bytes.
///
/// Among several ready channels the one after the last used goes first, so that none starves.
///
/// Source: PATTHEL §III.B eq. 1.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    last: ChannelId,
}

impl ChunkScheduler for Backlog {
    fn select(&mut self, _now: Instant, _unit: ChunkUnit, paths: &[PathView]) -> Decision {
        let ready = usable(paths)
            .filter(|path| path.ready)
            .map(|path| path.channel);
        let chosen = ready
            .clone()
            .find(|channel| *channel > self.last)
            .or(ready.min());
        match chosen {
            Some(channel) => {
                self.last = channel;
                Decision::Channel(channel, Reason::Writable)
            }
            None => Decision::Wait(None, Reason::AllBusy),
        }
    }

    fn policy(&self) -> ChunkPolicy {
        ChunkPolicy::Backlog
    }
}
