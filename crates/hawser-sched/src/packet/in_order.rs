use std::collections::BTreeMap;
use std::time::Duration;

use hawser_types::{ByteCount, ChannelId, Instant};

use super::auto::Auto;
use super::estimate::{queue, share};
use super::scheduler::usable;
use super::{Arranged, PacketDecision, PacketPolicy, PacketScheduler, PacketUnit};
use crate::PathView;

/// In-kernel reorder: packets are gathered to a burst, and each burst is spread so that it arrives
/// in order.
///
/// A burst has as many packets as it takes for the slowest path to get one, by f_i = b_i / Σ b. The
/// paths' places in the burst are sorted by when a packet in them would arrive, and the first
/// packet gets the earliest place: so the slow link carries the packet that is needed last. Each
/// path's packets are released at up to twice its rate, instead of all at once: at the rate itself
/// nothing would ever show that the path can do more.
///
/// The paper knows no delays: with a 4:1 ratio, packet 5 takes the slow link. Places are sorted by
/// estimated arrival here, which is the same for equal delays.
///
/// Source: MMS §II.D.
#[derive(Debug, Default)]
pub(super) struct InOrder {
    slots: Vec<Slot>,
    lanes: Vec<Lane>,
    /// Packets that each path has got too few of in earlier bursts, of which short ones
    /// have no exact shares.
    dues: BTreeMap<ChannelId, f64>,
}

/// A place in a burst.
#[derive(Clone, Copy, Debug)]
struct Slot {
    path: ChannelId,
    departs: f64,
    arrives: f64,
}

/// One path while places are shared out.
#[derive(Clone, Copy, Debug)]
struct Lane {
    path: ChannelId,
    /// Seconds between two packets.
    gap: f64,
    /// Share of the packets that it has not got yet, in packets.
    due: f64,
    fraction: f64,
    /// Seconds from departure to arrival of the first one.
    delay: f64,
    given: u32,
}

impl PacketScheduler for InOrder {
    /// A packet without a burst, as at the end of a transfer.
    fn select(&mut self, now: Instant, unit: &PacketUnit, paths: &[PathView]) -> PacketDecision {
        Auto.select(now, unit, paths)
    }

    fn burst(&self, paths: &[PathView]) -> Option<usize> {
        let shares = usable(paths).map(share);
        let total: f64 = shares.clone().sum();
        let least = shares.fold(f64::INFINITY, f64::min);
        let packets = (total / least).ceil();
        (usable(paths).nth(1).is_some()).then(|| (packets as usize).clamp(2, MAX_BURST))
    }

    fn arrange(&mut self, sizes: &[ByteCount], paths: &[PathView], order: &mut Vec<Arranged>) {
        let total: f64 = usable(paths).map(share).sum();
        let bytes: u64 = sizes.iter().map(|size| size.as_u64()).sum();
        let mean = bytes as f64 / sizes.len().max(1) as f64;
        self.lanes.clear();
        self.lanes.extend(usable(paths).map(|path| Lane {
            path: path.channel,
            gap: mean / path.rate_or_guess(),
            due: self.dues.get(&path.channel).copied().unwrap_or(0.0),
            fraction: share(path) / total,
            delay: path.min_rtt.as_secs_f64() / 2.0 + queue(path),
            given: 0,
        }));
        self.slots.clear();
        for _ in sizes {
            self.lanes.iter_mut().for_each(|it| it.due += it.fraction);
            let most = self.lanes.iter_mut().max_by(|a, b| a.due.total_cmp(&b.due));
            let Some(lane) = most else {
                return;
            };
            lane.due -= 1.0;
            let departs = lane.gap * f64::from(lane.given);
            lane.given += 1;
            self.slots.push(Slot {
                path: lane.path,
                departs,
                arrives: departs + lane.delay + lane.gap,
            });
        }
        self.dues.clear();
        self.dues
            .extend(self.lanes.iter().map(|it| (it.path, it.due)));
        // Of two that arrive together the one that leaves later is on the quicker path.
        let order_of = |slot: &Slot| ((slot.arrives * 1e6).round() as u64, -slot.departs);
        self.slots.sort_by(|a, b| {
            let ((a_at, a_left), (b_at, b_left)) = (order_of(a), order_of(b));
            a_at.cmp(&b_at).then(a_left.total_cmp(&b_left))
        });
        let from = order.len();
        order.extend(
            self.slots
                .iter()
                .enumerate()
                .map(|(packet, slot)| Arranged {
                    packet,
                    path: slot.path,
                    after: Duration::from_secs_f64((slot.departs / FASTER).clamp(0.0, LONGEST)),
                }),
        );
        order[from..].sort_by_key(|it| (it.after, it.packet));
    }

    fn has_path(&self, backlog: ByteCount, paths: &[PathView]) -> bool {
        self.burst(paths).is_some() || Auto.has_path(backlog, paths)
    }

    fn policy(&self) -> PacketPolicy {
        PacketPolicy::InOrder
    }
}

/// How much faster than at the path's rate packets are released.
const FASTER: f64 = 2.0;
/// Larger bursts would wait for longer than they gain.
const MAX_BURST: usize = 32;
/// Seconds.
const LONGEST: f64 = 0.1;
