use hawser_types::Instant;

use super::estimate::share;
use super::scheduler::usable;
use super::{PacketDecision, PacketPolicy, PacketReason, PacketScheduler, PacketUnit};
use crate::PathView;
use crate::turns::ByteTurns;

/// Paths take turns: path i gets f_i = b_i / Σ b of the bytes, b being rate times weight.
///
/// Strict: when the next one is busy, the packet waits for it ([`ByteTurns`]).
///
/// Source: MMS §II.D, eq. 1.
#[derive(Debug)]
pub(super) struct Weighted {
    policy: PacketPolicy,
    turns: ByteTurns,
}

impl Weighted {
    pub(super) fn new(policy: PacketPolicy) -> Self {
        Self {
            policy,
            turns: ByteTurns::default(),
        }
    }
}

impl PacketScheduler for Weighted {
    fn select(&mut self, _now: Instant, unit: &PacketUnit, paths: &[PathView]) -> PacketDecision {
        let cost = |path: &PathView| unit.size.as_u64() as f64 / share(path);
        match self.turns.take(usable(paths), usable(paths), cost) {
            Some(path) if path.ready => PacketDecision::Path(path.channel, PacketReason::Turn),
            Some(_) => PacketDecision::Wait(None, PacketReason::NotItsTurn),
            None => PacketDecision::Wait(None, PacketReason::AllBusy),
        }
    }

    fn policy(&self) -> PacketPolicy {
        self.policy
    }
}
