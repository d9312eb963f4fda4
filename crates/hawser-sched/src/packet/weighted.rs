use std::collections::BTreeMap;

use hawser_types::{ChannelId, Instant};

use super::estimate::share;
use super::scheduler::usable;
use super::{PacketDecision, PacketPolicy, PacketReason, PacketScheduler, PacketUnit};
use crate::PathView;

/// Paths take turns: path i gets f_i = b_i / Σ b of the bytes, b being rate times weight.
///
/// Each path has a virtual finishing time that a packet advances by its size over the path's share;
/// the lowest is next. Strict: when the next one is busy, the packet waits for it.
///
/// Source: MMS §II.D, eq. 1.
#[derive(Debug)]
pub(super) struct Weighted {
    policy: PacketPolicy,
    finish: BTreeMap<ChannelId, f64>,
}

impl Weighted {
    pub(super) fn new(policy: PacketPolicy) -> Self {
        Self {
            policy,
            finish: BTreeMap::new(),
        }
    }
}

impl PacketScheduler for Weighted {
    fn select(&mut self, _now: Instant, unit: &PacketUnit, paths: &[PathView]) -> PacketDecision {
        let is_there = |id: &ChannelId| usable(paths).any(|path| path.channel == *id);
        self.finish.retain(|channel, _| is_there(channel));
        // A newcomer starts level with the one that is furthest behind, not with a debt.
        let floor = self.finish.values().copied().fold(f64::INFINITY, f64::min);
        let floor = if floor.is_finite() { floor } else { 0.0 };
        for path in usable(paths) {
            self.finish.entry(path.channel).or_insert(floor);
        }
        let time = |path: &PathView| self.finish.get(&path.channel).copied().unwrap_or(floor);
        match usable(paths).min_by(|a, b| time(a).total_cmp(&time(b))) {
            Some(path) if path.ready => {
                let cost = unit.size.as_u64() as f64 / share(path);
                *self.finish.entry(path.channel).or_insert(floor) += cost;
                PacketDecision::Path(path.channel, PacketReason::Turn)
            }
            Some(_) => PacketDecision::Wait(None, PacketReason::NotItsTurn),
            None => PacketDecision::Wait(None, PacketReason::AllBusy),
        }
    }

    fn policy(&self) -> PacketPolicy {
        self.policy
    }
}
