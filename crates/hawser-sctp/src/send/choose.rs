//! Which chunk goes next, and over which path.

use std::time::Duration;

use hawser_sched::PathView;
use hawser_sched::chunk::{ChunkPolicy, ChunkUnit, Decision};
use hawser_sched::rules::Permission;
use hawser_types::{ByteCount, ChannelId, Instant, PathId};
use smallvec::SmallVec;

use super::Outbound;
use super::transmit::{Job, Kind, LOOK_AHEAD};
use super::window::{Record, Status};
use crate::LossRule;
use crate::path::{Path, PathState, Paths};

/// A path as retransmissions look at it.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    path: PathId,
    rtt: Duration,
    ready: bool,
}

/// Packets that follow each other on one path, by one decision of the policy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Train {
    path: PathId,
    /// They leave at one instant, since nothing else may have changed.
    now: Instant,
    /// So much is under way on the path at its end.
    end: ByteCount,
}

impl Outbound {
    /// What the next packet is for.
    pub(super) fn choose(&mut self, now: Instant, paths: &mut Paths) -> Option<Job> {
        if let Some((path, chunks)) = self.copies.take() {
            let kind = Kind::Twin(chunks);
            return Some(Job { path, kind });
        }
        if let Some(path) = paths.iter().find(|path| path.flight.is_probe_due()) {
            let (path, kind) = (path.id, Kind::Probe);
            return Some(Job { path, kind });
        }
        if matches!(self.losses, LossRule::Reports { .. }) {
            let again = self.choose_again(now, paths);
            return again.or_else(|| self.choose_new(now, paths));
        }
        self.choose_again(now, paths)
            .or_else(|| self.choose_copy(now, paths))
            .or_else(|| self.choose_new(now, paths))
            .or_else(|| self.choose_rescue(now, paths))
    }

    /// Retransmissions: the path with the least round-trip time, never one that failed the chunk
    /// while there is another. Source: SCTP aggregation §3.4.
    fn choose_again(&mut self, now: Instant, paths: &mut Paths) -> Option<Job> {
        if !self.window.has_again() {
            return None;
        }
        let candidates = candidates(paths.views(now, |path| is_ready(now, path)));
        let mut wake_at = None;
        for chunk in self.window.again().take(LOOK_AHEAD) {
            let record = self.window.get(chunk);
            let Some(record) = record.filter(|record| self.may_repeat(chunk, record)) else {
                continue;
            };
            let is_first = chunk == self.window.first();
            match place_again(now, &candidates, record, |path| {
                is_first && paths.path(path).is_some_and(has_spare_packet)
            }) {
                Again::Over(path) => {
                    let kind = Kind::Again(chunk);
                    return Some(Job { path, kind });
                }
                Again::After(at) => wake_at = earlier(wake_at, at),
                Again::Later => {}
            }
        }
        self.wake_at = wake_at;
        None
    }

    /// What is under way on a path that has fallen silent goes over another as well, once, rather
    /// than wait for T3.
    fn choose_copy(&mut self, now: Instant, paths: &mut Paths) -> Option<Job> {
        let is_silent = |path: &&Path| path.is_suspect(now) && path.flight.uncopied().is_some();
        let silent = paths.iter().find(is_silent)?.id;
        let candidates = candidates(paths.views(now, |path| is_ready(now, path)));
        let others = candidates.iter().filter(|it| it.path != silent);
        let path = quickest(others.filter(|it| it.ready))?;
        let flight = &mut paths.path_mut(silent)?.flight;
        while let Some(packet) = flight.uncopied() {
            let chunks = packet.chunks.iter().copied();
            let chunks: SmallVec<[u64; 2]> =
                chunks.filter(|it| self.may_copy(*it, silent)).collect();
            flight.on_copied();
            if !chunks.is_empty() {
                let kind = Kind::Copy(chunks);
                return Some(Job { path, kind });
            }
        }
        None
    }

    /// New chunks: the policy decides, where there is something to decide.
    fn choose_new(&mut self, now: Instant, paths: &mut Paths) -> Option<Job> {
        let next = self.queue.next()?;
        if !self.has_room_for(self.next_payload(paths, &next)) {
            return None;
        }
        if let Some(only) = only_path(paths) {
            let (path, kind) = (only.id, Kind::New { second: None });
            return is_ready(now, only).then_some(Job { path, kind });
        }
        if let Some(path) = self.goes_on(now, paths) {
            let kind = Kind::New { second: None };
            return Some(Job { path, kind });
        }
        if !paths.iter().any(|path| is_ready(now, path)) {
            return None;
        }
        let unit = self.unit();
        let views = paths.views(now, |path| is_ready(now, path));
        if !views.iter().any(|view| view.ready) {
            return None;
        }
        let (path, second) = match self.scheduler.select(now, unit, views) {
            Decision::Channel(channel, _) => {
                self.begin_train(now, paths, path_of(channel));
                (path_of(channel), None)
            }
            Decision::Duplicate([first, second], _) => (path_of(first), Some(path_of(second))),
            Decision::Wait(until, _) => {
                let until = until.map(|at| at.max(now + TICK));
                self.wake_at = self.wake_at.into_iter().chain(until).min();
                return None;
            }
        };
        let kind = Kind::New { second };
        Some(Job { path, kind })
    }

    /// `auto` has chosen a quick path: what that carries in no time worth the name goes there too, so that
    /// the peer gets chunks in rows instead of one from each path in turn.
    fn begin_train(&mut self, now: Instant, paths: &Paths, id: PathId) {
        let path = paths.path(id);
        let chosen = path.filter(|_| self.scheduler.policy() == ChunkPolicy::Auto);
        self.train = chosen.and_then(|path| {
            let span = (path.rtt.smoothed()? / TRAIN_OF_ROUND_TRIP).min(LONGEST_TRAIN);
            let bytes = path.delivery_rate() * span;
            let end = path.flight.bytes() + bytes;
            (bytes > ByteCount::from(path.packet_size)).then_some(Train { path: id, now, end })
        });
    }

    /// The path of the train that goes on.
    fn goes_on(&self, now: Instant, paths: &Paths) -> Option<PathId> {
        let train = self.train.as_ref().filter(|train| train.now == now)?;
        let path = paths.path(train.path)?;
        let goes_on = path.flight.bytes() < train.end && is_ready(now, path);
        goes_on.then_some(train.path)
    }

    /// Nothing new may leave, or nothing waits, and a chunk near the beginning of the window is under
    /// way on a path from which a quicker one that has nothing to do would bring it sooner: a copy
    /// goes over that one.
    ///
    /// Source: C. Raiciu and others, *How Hard Can It Be? Designing and Implementing a Deployable
    /// Multipath TCP*, NSDI 2012, §4.2 (opportunistic retransmission; nobody is penalised here).
    fn choose_rescue(&mut self, now: Instant, paths: &mut Paths) -> Option<Job> {
        let next = self.queue.next();
        let payload = next.map(|next| self.next_payload(paths, &next));
        if payload.is_some_and(|payload| self.has_room_for(payload)) || self.window.is_empty() {
            return None;
        }
        // With one path, or none that is free, there is nothing to be gained.
        if !paths.iter().any(|path| is_ready(now, path)) || paths.iter().nth(1).is_none() {
            return None;
        }
        let candidates = candidates(paths.views(now, |path| is_ready(now, path)));
        let idle = quickest(candidates.iter().filter(|it| it.ready))?;
        let quick = paths.path(idle)?.rtt.smoothed()?;
        let first = self.window.first();
        let slow = (first..self.window.end()).take(LOOK_AHEAD).find(|chunk| {
            let record = self.window.get(*chunk);
            let record = record.filter(|record| !record.failed_on(idle));
            let place = record.and_then(|record| record.places.first());
            let under_way = place.filter(|it| it.path != idle && self.may_copy(*chunk, it.path));
            let expected = under_way.and_then(|it| {
                let path = paths.path(it.path)?;
                Some(path.flight.sent_at(it.packet)? + path.rtt.smoothed()?)
            });
            // Half a round trip is to be gained, so that it is worth a packet.
            expected.is_some_and(|expected| now + quick + quick / 2 < expected)
        })?;
        let chunks = SmallVec::from_slice(&[slow]);
        let (path, kind) = (idle, Kind::Copy(chunks));
        Some(Job { path, kind })
    }

    /// Whether it is under way on this path alone, and no copy of it was sent.
    fn may_copy(&self, chunk: u64, from: PathId) -> bool {
        let record = self.window.get(chunk);
        record.is_some_and(|it| {
            let is_here = it.places.iter().all(|place| place.path == from);
            it.status == Status::Wait && is_here && !it.copied
        })
    }

    /// Nothing leaves now: why, and until when.
    pub(super) fn on_nothing_to_do(&mut self, now: Instant, paths: &mut Paths) {
        let waits = self.window.has_again() || !self.queue.is_empty();
        let has_others = paths.iter().nth(1).is_some();
        for path in paths.iter_mut() {
            let is_held_up = path.has_room() && waits && !path.flight.is_paced(now);
            path.flight.set_waiting_for_pace(is_held_up);
            if is_held_up {
                self.wake_at = earlier(self.wake_at, path.flight.paced_at());
            } else if path.has_room() {
                path.flight.on_application_limited();
            }
            let uncopied = path.flight.uncopied().and_then(|_| path.suspect_at());
            if let Some(at) = uncopied.filter(|at| has_others && *at > now) {
                self.wake_at = earlier(self.wake_at, at + GRANULARITY);
            }
        }
    }

    /// What the policy may know of what waits.
    fn unit(&self) -> ChunkUnit {
        let waits = self.queue.bytes();
        let own = self
            .send_buffer
            .saturating_sub(self.window.bytes().as_u64());
        ChunkUnit {
            size: ByteCount::new(waits) + self.behind.bytes,
            more: self.is_blocked || self.behind.more || waits >= self.send_buffer / 4,
            room: Some(ByteCount::new(self.room().min(own))),
            again: false,
        }
    }
}

/// The paths that retransmissions may use: suspect ones only where there is no other.
fn candidates(views: &[PathView]) -> SmallVec<[Candidate; 8]> {
    let all_suspect = views.iter().all(|view| view.suspect);
    let usable = views.iter().filter(|view| all_suspect || !view.suspect);
    usable
        .map(|view| Candidate {
            path: path_of(view.channel),
            rtt: view.rtt,
            ready: view.ready,
        })
        .collect()
}

/// Where a chunk that failed goes.
enum Again {
    Over(PathId),
    /// Nowhere before this instant, unless something else changes.
    After(Instant),
    /// Nowhere until something changes.
    Later,
}

/// Over the quickest path that is ready and has not failed the chunk. `may_exceed`: whether a path
/// may take it though its window is full.
///
/// Where such paths exist and are busy, a chunk waits for them for a round trip and no longer: on a
/// narrow one, what a wide one fails would else pile up without end.
fn place_again(
    now: Instant,
    candidates: &[Candidate],
    record: &Record,
    may_exceed: impl Fn(PathId) -> bool,
) -> Again {
    let ready = || candidates.iter().filter(|it| it.ready);
    let unfailed = |it: &&Candidate| !record.failed_on(it.path);
    if let Some(path) = quickest(ready().filter(unfailed)) {
        return Again::Over(path);
    }
    let best = candidates
        .iter()
        .filter(unfailed)
        .min_by_key(|it| it.rank());
    let exceeds = best.or(candidates.iter().min_by_key(|it| it.rank()));
    if let Some(path) = exceeds.filter(|it| may_exceed(it.path)) {
        return Again::Over(path.path);
    }
    let until = best.map_or(now, |best| record.failed_at + best.rtt);
    match quickest(ready()) {
        Some(path) if until <= now => Again::Over(path),
        Some(_) => Again::After(until),
        None => Again::Later,
    }
}

impl Candidate {
    fn rank(&self) -> (Duration, PathId) {
        (self.rtt, self.path)
    }
}

fn quickest<'a>(candidates: impl Iterator<Item = &'a Candidate>) -> Option<PathId> {
    candidates.min_by_key(|it| it.rank()).map(|it| it.path)
}

fn earlier(known: Option<Instant>, at: Instant) -> Option<Instant> {
    Some(known.map_or(at, |known| known.min(at)))
}

/// The path of an association that has only one.
fn only_path(paths: &Paths) -> Option<&Path> {
    let mut paths = paths.iter();
    let only = paths.next()?;
    let is_only = paths.next().is_none() && only.state != PathState::Unconfirmed;
    let is_forbidden = matches!(only.terms.up, Permission::Forbidden(_));
    (is_only && !is_forbidden).then_some(only)
}

pub(super) fn is_ready(now: Instant, path: &Path) -> bool {
    path.flight.is_ready(now, path.congestion.window())
}

/// The first chunk of all may exceed a full window by one packet. Where the paper takes back a chunk
/// that waits in the path's buffer, there is none here: chunks are bound to a path when they leave.
/// Source: SCTP aggregation §3.4 (the rule against dead-locks), RFC 9260 §7.2.4 rule 3.
fn has_spare_packet(path: &Path) -> bool {
    let packet = ByteCount::from(path.packet_size);
    path.flight.bytes() < path.congestion.window() + packet
}

pub(super) fn path_of(channel: ChannelId) -> PathId {
    PathId::new(channel.value())
}

/// A train takes this part of a round trip, and no longer than that: what a policy could gain within
/// it is less than it knows of either path.
const TRAIN_OF_ROUND_TRIP: u32 = 16;
const LONGEST_TRAIN: Duration = Duration::from_micros(50);
/// A policy that waits is asked again no sooner.
const TICK: Duration = Duration::from_millis(1);
/// A path is silent for too long after this instant, not at it.
const GRANULARITY: Duration = Duration::from_nanos(1);
