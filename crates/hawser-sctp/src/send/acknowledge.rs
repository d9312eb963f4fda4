//! Processing of SACKs.

use std::ops::Range;
use std::time::Duration;

use hawser_types::{ByteCount, Instant, PathId};
use hawser_wire::sctp::{Sack, Tsn};
use smallvec::SmallVec;

use super::Outbound;
use super::window::{Status, Transmission};
use crate::congestion::Acknowledged;
use crate::path::{Path, Paths};
use crate::{LossRule, Misbehaviour};

type TouchedPaths = SmallVec<[PathId; 8]>;

impl Outbound {
    /// Handles a SACK that came over a path; returns the payload newly acknowledged. One that
    /// acknowledges unsent chunks changes nothing.
    ///
    /// The cost is proportional to what is new: known runs are skipped as a whole.
    pub(crate) fn on_sack(
        &mut self,
        now: Instant,
        sack: &Sack,
        over: Option<PathId>,
        paths: &mut Paths,
    ) -> Result<ByteCount, Misbehaviour> {
        let Some(first) = self.slides_to(sack.cumulative)? else {
            return Ok(ByteCount::ZERO);
        };
        let runs = self.runs(first, sack)?;
        self.peer_window = u64::from(sack.window);
        let arrival = AckArrival { now, over };
        let acknowledged = self.acknowledge(arrival, first, &runs, paths);
        for tsn in sack.duplicates.iter().take(MAX_REPAIRED) {
            self.on_duplicate(now, *tsn, paths);
        }
        Ok(acknowledged)
    }

    /// Handles the cumulative TSN of a SHUTDOWN, which has no gap blocks and no window.
    pub(crate) fn on_cumulative(
        &mut self,
        now: Instant,
        cumulative: Tsn,
        over: Option<PathId>,
        paths: &mut Paths,
    ) -> Result<ByteCount, Misbehaviour> {
        match self.slides_to(cumulative)? {
            Some(first) => Ok(self.acknowledge(AckArrival { now, over }, first, &[], paths)),
            None => Ok(ByteCount::ZERO),
        }
    }

    fn acknowledge(
        &mut self,
        arrival: AckArrival,
        first: u64,
        runs: &[Range<u64>],
        paths: &mut Paths,
    ) -> ByteCount {
        let now = arrival.now;
        self.heard_at = now;
        self.train = None;
        let advanced = first > self.window.first();
        let mut acknowledged = ByteCount::ZERO;
        let mut touched = TouchedPaths::new();
        let mut newest = None;
        for chunk in self.window.first()..first {
            let length = self.on_acknowledged(arrival, chunk, paths, &mut touched);
            newest = newest.max(Some(chunk).filter(|_| length > ByteCount::ZERO));
            acknowledged += length;
        }
        self.slide(first);
        let mut fresh = std::mem::take(&mut self.fresh);
        for run in runs {
            self.window.acknowledge(run.clone(), &mut fresh);
        }
        newest = newest.max(fresh.iter().copied().max());
        for chunk in fresh.drain(..) {
            let record = self.window.get(chunk);
            if record.is_some_and(|it| it.is_placed && it.status == Status::Abandoned) {
                // It has come before the peer knows that it was given up.
                self.on_duplicate(now, self.window.tsn(chunk), paths);
            }
            acknowledged += self.on_acknowledged(arrival, chunk, paths, &mut touched);
        }
        self.fresh = fresh;
        self.detect_reneging(runs);
        let may_grow = self.may_grow(advanced);
        for id in touched {
            self.conclude(arrival, id, may_grow, paths);
        }
        paths.watch(now);
        self.count_reports(now, advanced, newest, paths);
        self.abandon.advance(&self.window);
        self.note_room();
        acknowledged
    }

    /// Returns the new start of the window; `None` for an older cumulative TSN.
    fn slides_to(&self, cumulative: Tsn) -> Result<Option<u64>, Misbehaviour> {
        let before = self.window.cumulative();
        if before.is_after(cumulative) {
            return Ok(None);
        }
        let first = self.window.first() + u64::from(cumulative.since(before));
        if first <= self.window.end() {
            Ok(Some(first))
        } else {
            Err(Misbehaviour::AcknowledgedUnsent)
        }
    }

    /// Converts gap blocks to runs of chunks; invalid blocks are skipped.
    fn runs(&self, first: u64, sack: &Sack) -> Result<SmallVec<[Range<u64>; 8]>, Misbehaviour> {
        let mut runs = SmallVec::new();
        for block in &sack.gaps {
            if block.first < 2 || block.last < block.first {
                continue;
            }
            let run = first + u64::from(block.first) - 1..first + u64::from(block.last);
            if run.end > self.window.end() {
                return Err(Misbehaviour::AcknowledgedUnsent);
            }
            runs.push(run);
        }
        Ok(runs)
    }

    /// Handles the first acknowledgement of a chunk: credits the packets that carried it, and
    /// returns its payload length.
    fn on_acknowledged(
        &mut self,
        arrival: AckArrival,
        chunk: u64,
        paths: &mut Paths,
        touched: &mut TouchedPaths,
    ) -> ByteCount {
        let Some(record) = self.window.get_mut(chunk) else {
            return ByteCount::ZERO;
        };
        if matches!(record.status, Status::Ack | Status::Abandoned) {
            return ByteCount::ZERO;
        }
        let once = record.send_count == 1;
        let (size, failed) = (record.size(), record.failed.last().copied());
        let length = ByteCount::new(record.length());
        let (in_flight, is_duplicated) =
            (std::mem::take(&mut record.in_flight), record.is_duplicated);
        if record.is_placed {
            drop(self.window.end_placed(chunk, Status::Ack));
        } else {
            self.window.set_status(chunk, Status::Ack);
        }
        if let ([transmission], true, false, None) = (&in_flight[..], once, is_duplicated, failed) {
            acknowledge_once(arrival, *transmission, size, paths, touched);
            return length;
        }
        let now = arrival.now;
        let judged = judge(arrival, &in_flight, once, paths);
        let credited = credited(&judged, is_duplicated);
        for it in &judged {
            let Some(path) = paths.path_mut(it.transmission.path) else {
                continue;
            };
            if credited.contains(&it.transmission) {
                let measures = once || is_duplicated && is_alone(it, &judged);
                path.flight
                    .acknowledge(now, it.transmission.packet, size, measures);
                path.on_chunk_arrived(size);
                if !touched.contains(&it.transmission.path) {
                    touched.push(it.transmission.path);
                }
            } else {
                path.flight.forget(it.transmission.packet, size);
                if once {
                    path.request_heartbeat();
                }
            }
        }
        match failed {
            Some(failed) if !credited.is_empty() => self.remember(chunk, failed),
            Some(failed) if judged.iter().all(|it| it.is_early) => {
                self.on_late(now, failed, paths);
            }
            _ => {}
        }
        length
    }

    /// Remembers a chunk that was lost in a packet: if the peer reports it as a duplicate, it was
    /// not.
    pub(super) fn remember(&mut self, chunk: u64, failed: Transmission) {
        if self.repaired.len() == MAX_REPAIRED {
            self.repaired.pop_front();
        }
        self.repaired.push_back((chunk, failed));
    }

    /// Handles a duplicate report: if the chunk was retransmitted or given up after it counted as
    /// lost, it was not lost. Source: RFC 3708.
    fn on_duplicate(&mut self, now: Instant, tsn: Tsn, paths: &mut Paths) {
        let is_it = |(chunk, _): &(u64, Transmission)| self.window.tsn(*chunk) == tsn;
        let index = self.repaired.iter().position(is_it);
        if let Some((_, failed)) = index.and_then(|index| self.repaired.remove(index)) {
            self.on_late(now, failed, paths);
        }
    }

    /// Handles the arrival of a packet that counted as lost: no later packet can have been
    /// acknowledged so soon.
    fn on_late(&mut self, now: Instant, transmission: Transmission, paths: &mut Paths) {
        let Some(path) = paths.path_mut(transmission.path) else {
            return;
        };
        if self.losses == LossRule::PerPath && path.flight.on_late(transmission.packet) {
            path.congestion.on_spurious(now);
            let Transmission { path: id, packet } = transmission;
            let mut timed_out = path.flight.take_timed_out(packet);
            timed_out.keep(|packet, chunk| {
                let transmission = Transmission { path: id, packet };
                self.window.on_not_lost(chunk, transmission)
            });
            path.flight.put_back(now, packet, timed_out);
        }
        paths.on_answered(now, transmission.path);
    }

    /// Evaluates a SACK for one path.
    fn conclude(&mut self, arrival: AckArrival, id: PathId, may_grow: bool, paths: &mut Paths) {
        let AckArrival { now, over } = arrival;
        let rests = paths.way_back_rests(now, id);
        let Some(path) = paths.path_mut(id) else {
            return;
        };
        let Some(summary) = path.flight.take_ack_summary() else {
            return;
        };
        let rtt = summary.measurable.map(|at| now.since(at));
        if let Some(rtt) = rtt {
            path.on_round_trip(now, rtt, over, rests);
        }
        let min_rtt = path.rtt.min().unwrap_or_default();
        let sample = path.flight.rate_sample(&summary, min_rtt);
        if self.losses == LossRule::PerPath {
            self.find_lost(now, id, paths);
        }
        let Some(path) = paths.path_mut(id) else {
            return;
        };
        path.on_acknowledged(&Acknowledged {
            now,
            bytes: summary.bytes,
            flight_before: summary.flight_before,
            flight: path.flight.bytes(),
            rtt,
            smoothed_rtt: path.rtt.smoothed().unwrap_or_default(),
            newest_sent: summary.newest_sent,
            may_grow,
            sample,
        });
        paths.on_answered(now, id);
    }

    /// Moves the window forward, and forgets messages that have arrived.
    fn slide(&mut self, first: u64) {
        for chunk in self.window.first()..first {
            let record = self.window.get(chunk).filter(|record| record.data.last);
            if let Some(id) = record.and_then(|record| record.message) {
                self.abandon.forget(id);
            }
        }
        self.window.slide(first);
    }

    /// Detects reneging: a chunk right after the cumulative TSN that an earlier gap block
    /// acknowledged. A peer that still has it would have included it. Missing gap blocks are not a
    /// sign, since SACKs overtake each other.
    fn detect_reneging(&mut self, held: &[Range<u64>]) {
        let first = self.window.get(self.window.first());
        if first.is_some_and(|record| record.status == Status::Ack) {
            tracing::debug!("the peer dropped what it had acknowledged");
            self.window.renege(held);
        }
    }
}

/// Credits a chunk that was sent once and never failed, as nearly all are. The result is that of
/// [`judge`] and [`credited`].
fn acknowledge_once(
    arrival: AckArrival,
    transmission: Transmission,
    size: u64,
    paths: &mut Paths,
    touched: &mut TouchedPaths,
) {
    let Some(path) = paths.path_mut(transmission.path) else {
        return;
    };
    let Some(sent_at) = path.flight.sent_at(transmission.packet) else {
        return;
    };
    let now = arrival.now;
    if now.since(sent_at) < arrival.least_age(path, true) {
        path.flight.forget(transmission.packet, size);
        path.request_heartbeat();
        return;
    }
    path.flight
        .acknowledge(now, transmission.packet, size, true);
    path.on_chunk_arrived(size);
    if !touched.contains(&transmission.path) {
        touched.push(transmission.path);
    }
}

/// Arrival of an acknowledgement.
#[derive(Clone, Copy, Debug)]
struct AckArrival {
    now: Instant,
    /// Path that it came over; `None` for an unknown route.
    over: Option<PathId>,
}

/// Assessment of a packet that carried the chunk, at the arrival of an acknowledgement.
struct Judged {
    transmission: Transmission,
    /// The acknowledgement can belong to this packet.
    is_plausible: bool,
    /// The acknowledgement is far too early for this packet.
    is_early: bool,
    /// Difference between its arrival and the expected time.
    distance: Duration,
}

/// Assesses all packets in flight that carried a chunk. `once`: it was sent only once.
///
/// After a retransmission, an acknowledgement sooner than the path's minimum round-trip time
/// belongs to an earlier packet. For a chunk sent once, one sooner than half of that suggests a
/// peer that acknowledges what it has not received. Nothing is credited for it until a heartbeat,
/// whose nonce the peer cannot know, has confirmed such a short round-trip time. An acknowledgement
/// over another path may come at any time, since its return delay is unknown.
fn judge(
    arrival: AckArrival,
    in_flight: &[Transmission],
    once: bool,
    paths: &Paths,
) -> SmallVec<[Judged; 2]> {
    let now = arrival.now;
    let judged = in_flight.iter().filter_map(|transmission| {
        let path = paths.path(transmission.path)?;
        let age = now.since(path.flight.sent_at(transmission.packet)?);
        let shortest = path.rtt.min().unwrap_or_default();
        Some(Judged {
            transmission: *transmission,
            is_plausible: age >= arrival.least_age(path, once),
            is_early: age < shortest / 2,
            distance: age.abs_diff(path.rtt.smoothed().unwrap_or_default()),
        })
    });
    judged.collect()
}

impl AckArrival {
    /// Returns the minimum age of a packet for this to be its acknowledgement. `once`: the chunk
    /// was sent only once.
    fn least_age(self, path: &Path, once: bool) -> Duration {
        let shortest = path.rtt.min().unwrap_or_default();
        if !once {
            shortest
        } else if shortest < LONG || self.over != Some(path.id) {
            Duration::ZERO
        } else {
            shortest / 2
        }
    }
}

/// Returns the packets that an acknowledgement is credited to: both packets of a chunk duplicated
/// from the beginning, else one.
///
/// Of several on one path it is the oldest: a later one would make all between them look lost. Of
/// several paths it is the one whose round-trip time fits best, so that a dead path does not seem
/// to answer when copies of its chunks arrive over another.
fn credited(judged: &[Judged], is_duplicated: bool) -> SmallVec<[Transmission; 2]> {
    if is_duplicated {
        return judged.iter().map(|it| it.transmission).collect();
    }
    let mut oldest: SmallVec<[&Judged; 2]> = SmallVec::new();
    for it in judged.iter().filter(|it| it.is_plausible) {
        if oldest
            .iter()
            .all(|known| known.transmission.path != it.transmission.path)
        {
            oldest.push(it);
        }
    }
    let best = oldest.into_iter().min_by_key(|it| it.distance);
    best.map(|it| it.transmission).into_iter().collect()
}

/// Tells whether no other packet can be the acknowledged one.
fn is_alone(it: &Judged, judged: &[Judged]) -> bool {
    let mut others = judged
        .iter()
        .filter(|other| other.transmission != it.transmission);
    it.is_plausible && others.all(|other| !other.is_plausible)
}

/// Maximum number of retransmitted chunks remembered, and of duplicates examined in one SACK.
const MAX_REPAIRED: usize = 64;
/// Round-trip times below this vary by more than half because of delays in the hosts.
const LONG: Duration = Duration::from_millis(5);
