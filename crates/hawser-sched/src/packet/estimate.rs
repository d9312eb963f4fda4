//! When a packet would arrive, and how long a path's queue is.

use std::time::Duration;

use hawser_types::ByteCount;

use crate::PathView;

/// Seconds from now until the last byte of a packet that is given to the path now is there.
///
/// What is in flight beyond what the empty path holds stands in a queue, ours or others'.
pub(super) fn arrival(path: &PathView, size: ByteCount) -> f64 {
    one_way(path) + queue(path) + size.as_u64() as f64 / rate(path) + path.stalled.as_secs_f64()
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
    let in_flight = (path.in_flight + path.beside + path.kernel_backlog).as_u64() as f64;
    let own = in_flight / rate(path) - path.min_rtt.as_secs_f64();
    own.max(0.0)
}

/// The queue is longer than what a path has in ordinary use: bursts of a few packets, and the
/// quarter by which a rate is probed.
pub(super) fn has_grown(path: &PathView) -> bool {
    let packets = PACKETS as f64 / rate(path);
    let by_length = path.min_rtt.as_secs_f64() / 4.0;
    queue(path) > SHORT_QUEUE.as_secs_f64().max(packets).max(by_length)
}

/// Bytes in each second; of a path that was never measured, its window in each round trip.
pub(super) fn rate(path: &PathView) -> f64 {
    match path.rate.bytes_per_second() {
        0 => path.window() / path.rtt.as_secs_f64().max(UNKNOWN_RTT),
        known => known as f64,
    }
}

/// Rate times the user's weight.
pub(super) fn share(path: &PathView) -> f64 {
    (rate(path) * path.weight).max(1.0)
}

const SHORT_QUEUE: Duration = Duration::from_millis(5);
/// Bytes of a few packets.
const PACKETS: u64 = 3 * 1500;
/// Seconds.
const UNKNOWN_RTT: f64 = 0.1;
