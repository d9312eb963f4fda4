use std::time::Duration;

use hawser_types::Instant;

use super::ACK_DELAY;
use crate::PathView;

/// Keeps the queue short that this host builds in one channel's path.
///
/// The path is full but not queueing with rate × shortest round trip under way. More than the latency
/// target on top of that is held back, as long as a queue is measured too: a rate that is
/// underestimated holds nothing back on a path without a queue. On slow links the target is the time
/// of two chunks, without which the link would run dry between them.
///
/// Only a queue that stands counts: one that was above the target for two round trips and 100 ms.
/// What a connection overshoots by while it looks for its rate is gone by then, and held back it
/// would find the rate later. (The interval is that of CoDel, RFC 8289 §3.2.)
///
/// Where others fill the queue, holding back only hands them our share. So when it has held back
/// for some round trips and the queue has not shrunk by a quarter, it is theirs, and nothing is
/// held back for ten seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct QueueCap {
    above_since: Option<Instant>,
    held: Option<Held>,
    compete_until: Instant,
    probed_at: Option<Instant>,
}

/// Since when something is held back, and the queue that was the reason.
#[derive(Clone, Copy, Debug)]
struct Held {
    since: Instant,
    queue: Duration,
}

impl QueueCap {
    /// `None`: the chunk may go. Else when the path will have drained enough for it.
    pub(super) fn drained_at(
        &mut self,
        now: Instant,
        path: &PathView,
        chunk: f64,
    ) -> Option<Instant> {
        let queue = path.standing_queue;
        let rate = path.rate.bytes_per_second() as f64;
        let target = TARGET.as_secs_f64().max(2.0 * chunk / rate);
        if queue.as_secs_f64() <= target {
            self.above_since = None;
            self.held = None;
            return None;
        }
        let above_since = *self.above_since.get_or_insert(now);
        let stands = now.since(above_since) >= (path.rtt * 2).max(INTERVAL);
        if !stands || now < self.compete_until {
            return None;
        }
        let held = *self.held.get_or_insert(Held { since: now, queue });
        let patience = (path.rtt * ROUND_TRIPS).max(MIN_PATIENCE);
        if now.since(held.since) > patience {
            self.held = None;
            if queue * 4 > held.queue * 3 {
                self.compete_until = now + COMPETE;
                return None;
            }
        }
        let most = rate * ((path.min_rtt + ACK_DELAY).as_secs_f64() + target);
        let excess = path.in_flight.as_u64() as f64 + chunk - most;
        // An empty channel may always send, however large its chunk.
        if excess <= 0.0 || path.in_flight.as_u64() == 0 {
            return None;
        }
        Some(now + Duration::from_secs_f64((excess / rate).clamp(MIN_WAIT, MAX_WAIT)))
    }

    /// Whether the last probe was long enough ago.
    pub(super) fn may_probe(&self, now: Instant) -> bool {
        self.probed_at.is_none_or(|at| now.since(at) >= PROBE_EACH)
    }

    pub(super) fn on_probe(&mut self, now: Instant) {
        self.probed_at = Some(now);
    }
}

/// The standing queue that bulk may build in a link. What calls and games bear, by ITU-T G.114,
/// is some five times as much, all ways together.
const TARGET: Duration = Duration::from_millis(30);
const INTERVAL: Duration = Duration::from_millis(100);
/// Round trips after which holding back must have shown: one until it takes hold, two for the
/// smoothing of the round-trip time.
const ROUND_TRIPS: u32 = 4;
const MIN_PATIENCE: Duration = Duration::from_millis(300);
/// How long to compete before holding back is tried again.
const COMPETE: Duration = Duration::from_secs(10);
/// Often enough for four probes in the two seconds within which a link has to be back.
const PROBE_EACH: Duration = Duration::from_millis(250);
/// Seconds.
const MIN_WAIT: f64 = 0.001;
const MAX_WAIT: f64 = 0.1;
