use hawser_types::{ByteCount, Instant};

use super::auto::{Auto, earliest};
use super::scheduler::usable;
use super::{PacketDecision, PacketPolicy, PacketReason, PacketScheduler, PacketUnit};
use crate::PathView;

/// Small and real-time packets over the two links where they arrive first; others as by `auto`.
///
/// The caller bounds the copies: once the budget is used up, it passes the packet as one that is
/// not real-time.
///
/// Source: ReMP TCP (A. Frömmgen and others, ICC 2016), for what is small only.
#[derive(Debug)]
pub(super) struct Redundant;

impl PacketScheduler for Redundant {
    fn select(&mut self, now: Instant, unit: &PacketUnit, paths: &[PathView]) -> PacketDecision {
        let ready = usable(paths).filter(|path| path.ready);
        let first = earliest(unit, ready.clone()).filter(|_| unit.flow.real_time);
        let second = first.and_then(|first| {
            let others = ready.filter(|path| path.link != first.link);
            earliest(unit, others).map(|second| [first.channel, second.channel])
        });
        match second {
            Some(both) => PacketDecision::Copies(both, PacketReason::Redundant),
            None => Auto.select(now, unit, paths),
        }
    }

    fn has_path(&self, backlog: ByteCount, paths: &[PathView]) -> bool {
        Auto.has_path(backlog, paths)
    }

    fn policy(&self) -> PacketPolicy {
        PacketPolicy::Redundant
    }
}
