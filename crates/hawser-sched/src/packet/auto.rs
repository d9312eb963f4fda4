use std::time::Duration;

use hawser_types::{ByteCount, Instant};

use super::estimate::{arrival, arrival_of, has_grown, one_way};
use super::scheduler::usable;
use super::{PacketDecision, PacketPolicy, PacketReason, PacketScheduler, PacketUnit};
use crate::PathView;

/// A packet leaves where it arrives first, and a flow that one path can carry stays on it.
///
/// 1. A flow stays on its path while that is ready and its queue is short, unless another path is
///    earlier by more than [`MARGIN`]: changing paths reorders.
/// 2. Otherwise the path with a short queue over which the packet arrives first. So traffic spills
///    over to the next path when the first one's queue grows, long before its window is full.
/// 3. Where all queues have grown, the ready path over which it arrives first: congestion control
///    bounds them, and has to see that there is more to send.
///
/// A longer path counts only once what waits of the flow would take as long over the nearer ones.
/// The far end restores the order, so with one packet on the longer path the whole flow has that
/// one's delay, and a connection whose window is small or does not grow moves less over both than
/// over the nearer one.
///
/// Real-time packets have no home, and do not mind queues that have grown: each leaves where it
/// arrives first. Where that path is about to have room, they wait for it, for up to [`PATIENCE`].
///
/// Source: spilling by queue is ACPF, arXiv 2106.16003; waiting for the nearer path while little is
/// left is ECF, Lim et al., CoNEXT 2017.
#[derive(Debug)]
pub(super) struct Auto;

impl PacketScheduler for Auto {
    fn select(&mut self, now: Instant, unit: &PacketUnit, paths: &[PathView]) -> PacketDecision {
        let is_real_time = unit.flow.real_time;
        let ready = usable(paths).filter(|path| path.ready);
        let ready = ready.filter(|path| is_real_time || is_worth_it(path, unit.backlog, paths));
        let is_short = |path: &&PathView| is_real_time || !has_grown(path);
        let short = ready.clone().filter(is_short);
        let Some(first) = earliest(unit, short.clone()) else {
            return match earliest(unit, ready) {
                Some(path) => PacketDecision::Path(path.channel, PacketReason::AllGrown),
                None => PacketDecision::Wait(None, PacketReason::AllBusy),
            };
        };
        if is_real_time && unit.waited < PATIENCE {
            let soonest = earliest(unit, usable(paths)).unwrap_or(first);
            if is_much_later(unit, first, soonest) {
                let until = now + (PATIENCE - unit.waited);
                return PacketDecision::Wait(Some(until), PacketReason::QuickerSoon);
            }
        }
        let home = unit.flow.home.filter(|_| !is_real_time);
        let home = short.clone().find(|path| Some(path.channel) == home);
        match home {
            Some(home) if !is_much_later(unit, home, first) => {
                PacketDecision::Path(home.channel, PacketReason::Home)
            }
            _ => PacketDecision::Path(first.channel, PacketReason::Earliest),
        }
    }

    fn has_path(&self, backlog: ByteCount, paths: &[PathView]) -> bool {
        let mut ready = usable(paths).filter(|path| path.ready);
        ready.any(|path| is_worth_it(path, backlog, paths))
    }

    fn policy(&self) -> PacketPolicy {
        PacketPolicy::Auto
    }
}

/// Tells whether a flow gains by the path: over all nearer ones its backlog takes as long. Paths
/// that the user wants less do not count.
fn is_worth_it(path: &PathView, backlog: ByteCount, paths: &[PathView]) -> bool {
    let own = one_way(path);
    let nearer = usable(paths)
        .filter(|other| other.preferred || !path.preferred)
        .filter(|other| one_way(other) + MARGIN < own);
    let (mut soonest, mut rates) = (f64::INFINITY, 0.0);
    for other in nearer {
        soonest = soonest.min(arrival(other, ByteCount::ZERO));
        rates += other.rate_or_guess();
    }
    rates == 0.0 || own <= soonest + backlog.as_u64() as f64 / rates
}

/// Preferred links come first, then the earlier arrival, then the lower number.
pub(super) fn earliest<'a>(
    unit: &PacketUnit,
    paths: impl Iterator<Item = &'a PathView>,
) -> Option<&'a PathView> {
    paths.min_by(|a, b| {
        let by_wish = b.preferred.cmp(&a.preferred);
        let by_arrival = arrival_of(unit, a).total_cmp(&arrival_of(unit, b));
        by_wish.then(by_arrival).then(a.channel.cmp(&b.channel))
    })
}

fn is_much_later(unit: &PacketUnit, home: &PathView, first: &PathView) -> bool {
    let (home_at, first_at) = (arrival_of(unit, home), arrival_of(unit, first));
    let is_against_wish = first.preferred && !home.preferred;
    is_against_wish || home_at > first_at * (1.0 + SHARE) + MARGIN
}

/// As long as a path with a window takes to have room again.
const PATIENCE: Duration = Duration::from_millis(5);
/// Seconds by which another path has to be earlier, beside a share of its own time.
const MARGIN: f64 = 0.005;
const SHARE: f64 = 0.25;
