use hawser_types::Instant;

use super::scheduler::usable;
use super::{ChunkPolicy, ChunkScheduler, ChunkUnit, Decision, Reason};
use crate::PathView;

/// The ready channel with the lowest smoothed round-trip time; the lower number wins a tie.
///
/// Source: the default scheduler of Linux MPTCP's first generation; SCTP aggregation §3.4.
#[derive(Debug)]
pub(super) struct LeastRtt;

impl ChunkScheduler for LeastRtt {
    fn select(&mut self, _now: Instant, _unit: ChunkUnit, paths: &[PathView]) -> Decision {
        let ready = usable(paths).filter(|path| path.ready);
        match ready.min_by_key(|path| (path.rtt, path.channel)) {
            Some(path) => Decision::Channel(path.channel, Reason::LeastRtt),
            None => Decision::Wait(None, Reason::AllBusy),
        }
    }

    fn policy(&self) -> ChunkPolicy {
        ChunkPolicy::LeastRtt
    }
}
