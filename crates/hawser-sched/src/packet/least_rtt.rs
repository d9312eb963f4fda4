use hawser_types::Instant;

use super::scheduler::usable;
use super::{PacketDecision, PacketPolicy, PacketReason, PacketScheduler, PacketUnit};
use crate::PathView;

/// The ready path with the lowest smoothed round-trip time; the lower number wins a tie.
#[derive(Debug)]
pub(super) struct LeastRtt;

impl PacketScheduler for LeastRtt {
    fn select(&mut self, _now: Instant, _unit: &PacketUnit, paths: &[PathView]) -> PacketDecision {
        let ready = usable(paths).filter(|path| path.ready);
        match ready.min_by_key(|path| (path.rtt, path.channel)) {
            Some(path) => PacketDecision::Path(path.channel, PacketReason::LeastRtt),
            None => PacketDecision::Wait(None, PacketReason::AllBusy),
        }
    }

    fn policy(&self) -> PacketPolicy {
        PacketPolicy::LeastRtt
    }
}
