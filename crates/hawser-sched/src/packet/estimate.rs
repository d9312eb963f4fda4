//! When a packet would arrive, and how long a path's queue is.

use std::time::Duration;

use hawser_types::ByteCount;

use super::PacketUnit;
use crate::PathView;

/// Seconds from now until the last byte of a packet that is given to the path now is there.
///
/// Bytes in flight beyond what the empty path holds stand in a queue, ours or others':
///
/// `min(min_rtt, rtt) / 2 + max(in_flight / rate − min_rtt, 0) + size / rate + stalled`
pub(super) fn arrival(path: &PathView, size: ByteCount) -> f64 {
    arrival_at(path, size, path.rate_or_guess())
}

/// The same for this packet.
///
/// A path that carries little of its window delivers no more than it is asked for, so its rate is
/// a lower bound: to a call alone, the near path that it took seems as slow as the call, and a far
/// one that carried nothing quick. For a real-time packet such a path counts with its window in
/// each round trip, if that is more. Bulk does not count on it: where it is wrong a queue grows,
/// for which a call sends too little.
pub(super) fn arrival_of(unit: &PacketUnit, path: &PathView) -> f64 {
    let is_asked = path.in_flight.as_u64() as f64 > path.window() / ASKED_SHARE;
    let rate = if unit.flow.real_time && !is_asked {
        path.rate_or_guess().max(path.rate_by_window())
    } else {
        path.rate_or_guess()
    };
    arrival_at(path, unit.size, rate)
}

fn arrival_at(path: &PathView, size: ByteCount, rate: f64) -> f64 {
    let leaves = queue_at(path, rate) + size.as_u64() as f64 / rate;
    one_way(path) + leaves + path.stalled.as_secs_f64()
}

/// Seconds that a packet needs over the empty path.
pub(super) fn one_way(path: &PathView) -> f64 {
    path.min_rtt.min(path.rtt).as_secs_f64() / 2.0
}

/// Seconds of queue that a packet would find.
///
/// The path holds its rate times its shortest round trip without a queue. What this host has in
/// flight beyond that is the queue as it is now; the standing queue is that of a round trip ago,
/// and has others' packets in it.
pub(super) fn queue(path: &PathView) -> f64 {
    queue_at(path, path.rate_or_guess())
}

fn queue_at(path: &PathView, rate: f64) -> f64 {
    let in_flight = (path.in_flight + path.beside + path.kernel_backlog).as_u64() as f64;
    let own = in_flight / rate - path.min_rtt.as_secs_f64();
    own.max(0.0)
}

/// The queue is longer than what a path has in ordinary use: bursts of a few packets, and the
/// quarter by which a rate is probed.
pub(super) fn has_grown(path: &PathView) -> bool {
    let packets = PACKETS as f64 / path.rate_or_guess();
    let by_length = path.min_rtt.as_secs_f64() / 4.0;
    queue(path) > SHORT_QUEUE.as_secs_f64().max(packets).max(by_length)
}

/// Rate times the user's weight.
pub(super) fn share(path: &PathView) -> f64 {
    (path.rate_or_guess() * path.weight).max(1.0)
}

const SHORT_QUEUE: Duration = Duration::from_millis(5);
/// Bytes of a few packets.
const PACKETS: u64 = 3 * 1500;
/// A path with this part of its window in flight, one in so many, is asked for what it can carry.
const ASKED_SHARE: f64 = 4.0;
