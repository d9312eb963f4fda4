use std::time::Duration;

use hawser_types::{ChannelId, Instant};

use super::scheduler::usable;
use super::{ChunkPolicy, ChunkScheduler, ChunkUnit, Decision, Reason};
use crate::PathView;
use crate::governor::Standing;

/// Where the chunk arrives earliest.
///
/// For each channel it reckons when the chunk would be there: what is in flight on its link, on
/// this channel and beside it, drains at the channel's rate, the chunk behind it, and nothing is
/// quicker than the empty path. Channels with a bottleneck in common drain together. The earliest
/// of those that are ready gets the chunk, unless the earliest of all is busy, and everything that
/// waits would be there sooner by waiting for it (the reasoning of ECF, with measured backlogs in
/// place of windows; once it waits, another channel has to be better by a quarter). An application
/// that writes on has no end that could be sooner, so that then every channel is used.
///
/// A link that the governor demoted gets a copy of a chunk now and then, while a link that was not
/// demoted lives; no reader waits for such a copy. An excluded link gets nothing. Links that the
/// user prefers come first; the others get what these cannot take.
#[derive(Debug, Default)]
pub(super) struct Auto {
    waiting: bool,
    /// When channels of demoted links were probed last.
    probes: Vec<(ChannelId, Instant)>,
}

/// The best of the channels seen so far.
#[derive(Clone, Copy)]
struct Candidate<'a> {
    path: &'a PathView,
    arrival: f64,
}

/// Result of one look at all channels.
#[derive(Default)]
struct Found<'a> {
    /// The earliest of all, and of those that are ready and may be used.
    earliest: Option<Candidate<'a>>,
    ready: Option<Candidate<'a>>,
    /// One that is to be probed.
    probe: Option<ChannelId>,
}

impl ChunkScheduler for Auto {
    fn select(&mut self, now: Instant, unit: ChunkUnit, paths: &[PathView]) -> Decision {
        let found = self.look(now, unit, paths);
        let decision = self.choose(now, unit, paths, &found);
        match (decision, found.probe) {
            (Decision::Channel(channel, _), Some(probe)) => {
                self.probes.retain(|(_, at)| now.since(*at) < PROBE_EACH);
                self.probes.push((probe, now));
                Decision::Duplicate([channel, probe], Reason::Probe)
            }
            _ => decision,
        }
    }

    fn policy(&self) -> ChunkPolicy {
        ChunkPolicy::Auto
    }
}

impl Auto {
    fn choose(
        &mut self,
        now: Instant,
        unit: ChunkUnit,
        paths: &[PathView],
        found: &Found<'_>,
    ) -> Decision {
        let Some(ready) = found.ready else {
            let reason = if usable(paths).any(|path| path.ready) {
                Reason::NotAllowed
            } else {
                Reason::AllBusy
            };
            return Decision::Wait(None, reason);
        };
        let earliest = found.earliest.unwrap_or(ready);
        if earliest.path.channel == ready.path.channel {
            self.waiting = false;
            return Decision::Channel(ready.path.channel, Reason::Earliest);
        }
        if self.waits(unit, earliest, ready) {
            // The kernel has then sent what it was given.
            let backlog = earliest.path.kernel_backlog.as_u64().max(MIN_BACKLOG) as f64;
            let wait = (backlog / earliest.path.rate_or_guess()).min(LONGEST_WAIT);
            let at = now + Duration::from_secs_f64(wait);
            return Decision::Wait(Some(at), Reason::QuickerSoon);
        }
        Decision::Channel(ready.path.channel, Reason::Writable)
    }

    fn look<'a>(&self, now: Instant, unit: ChunkUnit, paths: &'a [PathView]) -> Found<'a> {
        let any_full = usable(paths).any(|path| path.standing == Standing::Full);
        let mut found = Found::default();
        for path in usable(paths) {
            match path.standing {
                Standing::Excluded(_) => continue,
                Standing::Probing(_) if any_full => {
                    let mut probes = self.probes.iter();
                    let is_recent = |(of, at): &(ChannelId, Instant)| {
                        *of == path.channel && now.since(*at) < PROBE_EACH
                    };
                    if path.ready && path.in_flight.as_u64() == 0 && !probes.any(is_recent) {
                        found.probe = found.probe.or(Some(path.channel));
                    }
                    continue;
                }
                _ => {}
            }
            let chunk = unit.size.min(path.chunk).as_u64() as f64;
            let arrival = arrival(path, paths, chunk);
            let candidate = Candidate { path, arrival };
            if candidate.beats(found.earliest) {
                found.earliest = Some(candidate);
            }
            if path.ready && candidate.beats(found.ready) {
                found.ready = Some(candidate);
            }
        }
        found
    }

    /// Whether everything that waits would be there sooner over the channel that is busy than
    /// this chunk over the one that is ready.
    fn waits(&mut self, unit: ChunkUnit, earliest: Candidate<'_>, ready: Candidate<'_>) -> bool {
        let preferred = earliest.path.preferred && !ready.path.preferred;
        let waiting = unit.size.as_u64() as f64;
        let rest = (waiting - unit.size.min(earliest.path.chunk).as_u64() as f64).max(0.0);
        let all_there = earliest.arrival + rest / earliest.path.rate_or_guess();
        let margin = if self.waiting { 1.0 + HYSTERESIS } else { 1.0 };
        self.waiting = !preferred && !unit.more && all_there < ready.arrival * margin;
        self.waiting
    }
}

impl Candidate<'_> {
    /// Preferred links come first, then the earlier arrival, then the lower number.
    fn beats(&self, other: Option<Self>) -> bool {
        other.is_none_or(|other| {
            let by_wish = self.path.preferred.cmp(&other.path.preferred);
            let by_arrival = other.arrival.total_cmp(&self.arrival);
            by_wish.then(by_arrival).is_gt()
        })
    }
}

/// Seconds from now until the last byte of `chunk` bytes given to the path now is there.
///
/// Bytes in flight count until the peer's session has acknowledged them. Those of them that have
/// arrived, and whose acknowledgement is on its way, are what the path delivers in the time that
/// acknowledgements take. A channel that has stalled is late by as much again:
///
/// `min_rtt / 2 + max(in_flight / rate − min_rtt − ACK_DELAY / 2, 0) + chunk / rate + stalled`
///
/// This is the estimate for packets, less what the session's acknowledgements are late.
fn arrival(path: &PathView, paths: &[PathView], chunk: f64) -> f64 {
    let one_way = path.min_rtt.as_secs_f64() / 2.0;
    let mut rate = path.rate_or_guess();
    let mut in_flight = (path.in_flight + path.beside).as_u64() as f64;
    if let Some(number) = path.bottleneck {
        let others = paths.iter().filter(|other| other.link != path.link);
        for other in others.filter(|other| other.bottleneck == Some(number)) {
            rate = rate.max(other.rate_or_guess());
            in_flight += other.in_flight.as_u64() as f64;
        }
    }
    let arrived = rate * (one_way + ACK_DELAY.as_secs_f64() / 2.0);
    let ahead = (in_flight - arrived).max(0.0);
    (ahead + chunk).max(rate * one_way + chunk) / rate + path.stalled.as_secs_f64()
}

/// How much earlier another channel has to be once one is waited for; β of ECF.
const HYSTERESIS: f64 = 0.25;
/// How long the peer's session may keep an acknowledgement for company.
const ACK_DELAY: Duration = Duration::from_millis(10);
/// Seconds.
const LONGEST_WAIT: f64 = 0.1;
const MIN_BACKLOG: u64 = 1448;
/// Often enough for four probes in the two seconds within which a link has to be back.
const PROBE_EACH: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests;
