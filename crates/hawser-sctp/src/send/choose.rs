//! Choice of the next chunk and its path.

use std::time::Duration;

use hawser_sched::PathView;
use hawser_sched::chunk::{ChunkPolicy, ChunkUnit, Decision, Reason};
use hawser_sched::tally::Asked;
use hawser_types::{ByteCount, Instant, PathId, Permission};
use smallvec::SmallVec;

use super::job::{Job, Kind};
use super::queue::Next;
use super::train::Train;
use super::window::{LOOK_AHEAD, Record, Status};
use super::{LostMessage, Outbound};
use crate::path::{Path, PathState, Paths};
use crate::{LossRule, ToPlace};

/// A path as retransmissions see it.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    path: PathId,
    rtt: Duration,
    ready: bool,
}

impl Outbound {
    /// Chooses the purpose and path of the next packet.
    pub(super) fn choose(&mut self, now: Instant, paths: &mut Paths) -> Option<Job> {
        if let Some((path, chunks)) = self.copies.take() {
            let kind = Kind::Duplicate(chunks);
            return Some(Job { path, kind });
        }
        if let Some(path) = paths.iter().find(|path| path.flight.is_probe_due()) {
            let (path, kind) = (path.id, Kind::Probe);
            return Some(Job { path, kind });
        }
        if matches!(self.losses, LossRule::Reports { .. }) {
            let again = self.choose_retransmission(now, paths);
            return again
                .or_else(|| self.choose_placed(now, paths))
                .or_else(|| self.choose_new(now, paths));
        }
        self.choose_retransmission(now, paths)
            .or_else(|| self.choose_suspect_reinjection(now, paths))
            .or_else(|| self.choose_probed_reinjection(now, paths))
            .or_else(|| self.choose_placed(now, paths))
            .or_else(|| self.choose_new(now, paths))
            .or_else(|| self.choose_reinjection(now, paths))
    }

    /// Chooses the next chunk that the owner has placed on a path which is ready. What waits for a
    /// path that has fallen silent is given up while another one answers: it would only be late,
    /// and keep the window from moving.
    fn choose_placed(&mut self, now: Instant, paths: &Paths) -> Option<Job> {
        if self.placed.is_empty() {
            return None;
        }
        let is_well = |path: &Path| path.state == PathState::Active && !path.is_suspect(now);
        let ill = self
            .placed
            .paths()
            .find(|id| !paths.path(*id).is_some_and(is_well));
        if let Some(ill) = ill.filter(|_| paths.iter().any(is_well)) {
            self.drop_placed(ill);
        }
        if self.room() == 0 {
            return None;
        }
        let is_ready = |id| paths.path(id).is_some_and(|path| path.is_ready(now));
        let path = self.placed.next_path(is_ready)?;
        let kind = Kind::Placed;
        Some(Job { path, kind })
    }

    /// Chooses a retransmission: over the path with the least round-trip time, not one that failed
    /// the chunk while there is another. Source: SCTP aggregation §3.4.
    fn choose_retransmission(&mut self, now: Instant, paths: &mut Paths) -> Option<Job> {
        if !self.window.has_retransmissions() {
            return None;
        }
        let candidates = candidates(paths.views(now, |path| path.is_ready(now)));
        let mut wake_at = None;
        for chunk in self.window.to_retransmit().take(LOOK_AHEAD) {
            let record = self.window.get(chunk);
            let Some(record) = record.filter(|record| self.may_retransmit(chunk, record)) else {
                continue;
            };
            let is_first = chunk == self.window.first();
            match retransmission_path(now, &candidates, record, |path| {
                is_first && paths.path(path).is_some_and(has_spare_packet)
            }) {
                RetransmissionPath::Over(path) => {
                    let kind = Kind::Retransmission(chunk);
                    return Some(Job { path, kind });
                }
                RetransmissionPath::After(at) => wake_at = earlier(wake_at, at),
                RetransmissionPath::Later => {}
            }
        }
        self.wake_at = wake_at;
        None
    }

    /// Chooses a reinjection from a suspect path: a packet in flight there is copied once to
    /// another path, instead of waiting for T3. What its owner has placed goes back to it.
    fn choose_suspect_reinjection(&mut self, now: Instant, paths: &mut Paths) -> Option<Job> {
        let is_silent = |path: &&Path| path.is_suspect(now) && path.flight.uncopied().is_some();
        let silent = paths.iter().find(is_silent)?.id;
        let candidates = candidates(paths.views(now, |path| path.is_ready(now)));
        let others = candidates.iter().filter(|it| it.path != silent);
        let path = quickest(others.filter(|it| it.ready))?;
        let answers = !paths.path(path)?.is_suspect(now);
        let flight = &mut paths.path_mut(silent)?.flight;
        while let Some(packet) = flight.uncopied() {
            let is_placed = |chunk: &u64| self.window.get(*chunk).is_some_and(|it| it.is_placed);
            if !answers && packet.chunks.iter().any(is_placed) {
                // It can be placed again only once, which must not go into the silence.
                return None;
            }
            let left_at = Some(packet.at);
            for chunk in &packet.chunks {
                if let Some(message) = self.window.give_back(*chunk) {
                    self.placed.on_lost(LostMessage { message, left_at });
                }
            }
            let chunks = packet.chunks.iter().copied();
            let chunks: SmallVec<[u64; 2]> =
                chunks.filter(|it| self.may_copy(*it, silent)).collect();
            if !chunks.is_empty() {
                // A SACK in the same packet may leave no room for them: then they are chosen again.
                let kind = Kind::Reinjection(chunks);
                return Some(Job { path, kind });
            }
            flight.on_copied();
        }
        None
    }

    /// Chooses a reinjection from a path with little in flight, after a tail loss probe: each
    /// is copied once to another path. The probe repairs a loss, but goes into the silence with the
    /// rest if the path has failed. A short request would then wait until the path is suspect, and
    /// so would its answer.
    fn choose_probed_reinjection(&mut self, now: Instant, paths: &mut Paths) -> Option<Job> {
        let is_probed = |path: &&Path| path.flight.is_probed() && path.flight.uncopied().is_some();
        let probed = paths.iter().find(is_probed)?.id;
        let candidates = candidates(paths.views(now, |path| path.is_ready(now)));
        let others = candidates.iter().filter(|it| it.path != probed);
        let path = quickest(others.filter(|it| it.ready))?;
        let probed_path = paths.path_mut(probed)?;
        let few = ByteCount::from(FEW_IN_FLIGHT * probed_path.packet_size);
        let flight = &mut probed_path.flight;
        while flight.bytes() <= few
            && let Some(packet) = flight.uncopied()
        {
            let is_placed = |chunk: &u64| self.window.get(*chunk).is_some_and(|it| it.is_placed);
            if packet.chunks.iter().any(is_placed) {
                // It goes back to its owner once the path is suspect.
                return None;
            }
            let chunks = packet.chunks.iter().copied();
            let chunks: SmallVec<[u64; 2]> =
                chunks.filter(|it| self.may_copy(*it, probed)).collect();
            if !chunks.is_empty() {
                let kind = Kind::Reinjection(chunks);
                return Some(Job { path, kind });
            }
            flight.on_copied();
        }
        None
    }

    /// Chooses new chunks: the policy decides, where there is a choice.
    fn choose_new(&mut self, now: Instant, paths: &mut Paths) -> Option<Job> {
        let next = self.queue.next()?;
        if self.shares.is_turn_of_placed() || !self.has_room_for(self.next_payload(paths, &next)) {
            return None;
        }
        if let Some(only) = only_path(paths) {
            if !only.is_ready(now) {
                return None;
            }
            let view = PathView {
                channel: only.channel(),
                link: only.link,
                ready: true,
                ..PathView::default()
            };
            let decision = Decision::Channel(view.channel, Reason::Writable);
            let (path, kind) = (only.id, Kind::New { second: None });
            self.count(now, &next, ChunkUnit::default(), (&[view], decision), paths);
            return Some(Job { path, kind });
        }
        let train = self.train.filter(|train| train.goes_on(now, paths));
        if let Some(path) = train.map(|train| train.path()) {
            let kind = Kind::New { second: None };
            return Some(Job { path, kind });
        }
        if !paths.iter().any(|path| path.is_ready(now)) {
            return None;
        }
        let unit = self.unit();
        let views = paths.views(now, |path| path.is_ready(now));
        if !views.iter().any(|view| view.ready) {
            return None;
        }
        let decision = self.scheduler.select(now, unit, views);
        let views = paths.latest_views();
        self.count(now, &next, unit, (views, decision), paths);
        let (path, second) = match decision {
            Decision::Channel(channel, _) => {
                let id = Path::of_channel(channel);
                let is_train = self.scheduler.policy() == ChunkPolicy::Auto;
                let path = paths.path(id).filter(|_| is_train);
                self.train = path.and_then(|path| Train::begin(now, path));
                (id, None)
            }
            Decision::Duplicate([first, second], _) => {
                (Path::of_channel(first), Some(Path::of_channel(second)))
            }
            Decision::Wait(until, _) => {
                let until = until.map(|at| at.max(now + TICK));
                self.wake_at = self.wake_at.into_iter().chain(until).min();
                return None;
            }
        };
        let kind = Kind::New { second };
        Some(Job { path, kind })
    }

    /// Counts a decision for the owner's stream that the next message belongs to.
    fn count(
        &mut self,
        now: Instant,
        next: &Next,
        unit: ChunkUnit,
        (views, decision): (&[PathView], Decision),
        paths: &Paths,
    ) {
        let Some(stream) = next.owner_stream else {
            return;
        };
        for view in views {
            self.tallies.add_link(view.link);
        }
        let asked = Asked {
            now,
            lane: 0,
            stream,
            unit,
            views,
            decision,
        };
        self.tallies
            .on_decision(&asked, |link, _| paths.absence(link));
    }

    /// Chooses a reinjection from a slow path: when no new chunk may leave or none waits, an idle
    /// path sends a copy of a chunk near the start of the window that it would deliver sooner.
    ///
    /// Source: C. Raiciu and others, *How Hard Can It Be? Designing and Implementing a Deployable
    /// Multipath TCP*, NSDI 2012, §4.2 (opportunistic retransmission; without penalizing the slow
    /// path).
    fn choose_reinjection(&mut self, now: Instant, paths: &mut Paths) -> Option<Job> {
        let next = self.queue.next();
        let payload = next.map(|next| self.next_payload(paths, &next));
        if payload.is_some_and(|payload| self.has_room_for(payload)) || self.window.is_empty() {
            return None;
        }
        // One path alone, or no free path, gains nothing.
        if !paths.iter().any(|path| path.is_ready(now)) || paths.iter().nth(1).is_none() {
            return None;
        }
        let candidates = candidates(paths.views(now, |path| path.is_ready(now)));
        let idle = quickest(candidates.iter().filter(|it| it.ready))?;
        let quick = paths.path(idle)?.rtt.smoothed()?;
        // A gain of half a round trip justifies a packet.
        let worth = quick + quick / 2;
        let first = self.window.first();
        let mut wake_at = None;
        let slow = (first..self.window.end()).take(LOOK_AHEAD).find(|chunk| {
            let record = self.window.get(*chunk);
            let record = record.filter(|record| !record.failed_on(idle));
            let transmission = record.and_then(|record| record.in_flight.first());
            let in_flight =
                transmission.filter(|it| it.path != idle && self.may_copy(*chunk, it.path));
            let answer = in_flight.and_then(|it| paths.path(it.path)?.answer(now, it.packet));
            let Some(answer) = answer else {
                return false;
            };
            wake_at = earlier(wake_at, answer.overdue_at(worth).max(now + TICK));
            answer.comes_in(now) > worth
        });
        let Some(slow) = slow else {
            self.wake_at = self.wake_at.into_iter().chain(wake_at).min();
            return None;
        };
        let chunks = SmallVec::from_slice(&[slow]);
        let (path, kind) = (idle, Kind::Reinjection(chunks));
        Some(Job { path, kind })
    }

    /// Tells whether a chunk is in flight on this path alone and was not copied.
    fn may_copy(&self, chunk: u64, from: PathId) -> bool {
        let record = self.window.get(chunk);
        record.is_some_and(|it| {
            let is_here = it
                .in_flight
                .iter()
                .all(|transmission| transmission.path == from);
            it.status == Status::Wait && is_here && !it.copied && !it.is_placed
        })
    }

    /// Notes for each path why nothing leaves, and until when.
    pub(super) fn on_nothing_to_do(&mut self, now: Instant, paths: &mut Paths) {
        let has_placed = self.shares.to_place != ToPlace::Nothing;
        let is_full = |path: &Path| has_placed && path.flight.bytes() >= path.placed_limit();
        let places_more = self.shares.to_place == ToPlace::InTurn;
        let any_waits = self.window.has_retransmissions() || !self.queue.is_empty();
        let has_others = paths.iter().nth(1).is_some();
        for path in paths.iter_mut() {
            let waits = any_waits || self.placed.next_on(path.id).is_some();
            let is_held_up = path.has_room() && waits && !path.flight.is_paced(now);
            path.flight.set_waiting_for_pace(is_held_up);
            if is_held_up {
                self.wake_at = earlier(self.wake_at, path.flight.paced_at());
            } else if path.has_room() && !places_more && !is_full(path) {
                path.flight.on_application_limited();
            }
            let uncopied = path.flight.uncopied().and_then(|_| path.suspect_at());
            if let Some(at) = uncopied.filter(|at| has_others && *at > now) {
                self.wake_at = earlier(self.wake_at, at + GRANULARITY);
            }
        }
    }

    /// Describes the waiting data for the policy.
    fn unit(&self) -> ChunkUnit {
        let waits = self.queue.bytes();
        let own = self
            .send_buffer
            .saturating_sub(self.window.bytes().as_u64());
        ChunkUnit {
            size: ByteCount::new(waits) + self.owner_backlog.bytes,
            more: self.is_blocked || self.owner_backlog.more || waits >= self.send_buffer / 4,
            room: Some(ByteCount::new(self.room().min(own))),
            again: false,
        }
    }
}

/// Returns the paths for retransmissions: suspect ones only where there is no other.
fn candidates(views: &[PathView]) -> SmallVec<[Candidate; 8]> {
    let all_suspect = views.iter().all(|view| view.suspect);
    let usable = views.iter().filter(|view| all_suspect || !view.suspect);
    usable
        .map(|view| Candidate {
            path: Path::of_channel(view.channel),
            rtt: view.rtt,
            ready: view.ready,
        })
        .collect()
}

/// Decision about the retransmission of a chunk.
enum RetransmissionPath {
    Over(PathId),
    /// Not before this instant, unless something else changes.
    After(Instant),
    /// Not until something changes.
    Later,
}

/// Chooses the fastest ready path that has not failed the chunk. `may_exceed`: tells whether a path
/// may take it with a full window.
///
/// If such paths exist but are busy, a chunk waits for them for one round trip. Without that limit,
/// a narrow path would collect the losses of a wide one without end.
fn retransmission_path(
    now: Instant,
    candidates: &[Candidate],
    record: &Record,
    may_exceed: impl Fn(PathId) -> bool,
) -> RetransmissionPath {
    let ready = || candidates.iter().filter(|it| it.ready);
    let unfailed = |it: &&Candidate| !record.failed_on(it.path);
    if let Some(path) = quickest(ready().filter(unfailed)) {
        return RetransmissionPath::Over(path);
    }
    let best = candidates
        .iter()
        .filter(unfailed)
        .min_by_key(|it| it.rank());
    let exceeds = best.or(candidates.iter().min_by_key(|it| it.rank()));
    if let Some(path) = exceeds.filter(|it| may_exceed(it.path)) {
        return RetransmissionPath::Over(path.path);
    }
    let until = best.map_or(now, |best| record.failed_at + best.rtt);
    match quickest(ready()) {
        Some(path) if until <= now => RetransmissionPath::Over(path),
        Some(_) => RetransmissionPath::After(until),
        None => RetransmissionPath::Later,
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

/// Returns the path of an association that has only one.
fn only_path(paths: &Paths) -> Option<&Path> {
    let mut paths = paths.iter();
    let only = paths.next()?;
    let is_only = paths.next().is_none() && only.state != PathState::Unconfirmed;
    let is_forbidden = matches!(only.rules.up, Permission::Forbidden(_));
    (is_only && !is_forbidden).then_some(only)
}

/// Tells whether the first chunk of the window may exceed this path's full window, by one packet.
/// The paper instead takes back a chunk from the path's buffer; here chunks are bound to a path
/// only when they leave. Source: SCTP aggregation §3.4 (the rule against deadlocks), RFC 9260
/// §7.2.4 rule 3.
fn has_spare_packet(path: &Path) -> bool {
    let packet = ByteCount::from(path.packet_size);
    path.flight.bytes() < path.congestion.window() + packet
}

/// Full packets' bytes in flight up to which all are copied to another path with a tail loss probe:
/// a short request or answer, perhaps duplicated on the same path, or the end of one.
const FEW_IN_FLIGHT: usize = 4;
/// Minimum time before a policy that waits is asked again.
const TICK: Duration = Duration::from_millis(1);
/// A path becomes suspect after the instant of [`Path::suspect_at`], not at it.
const GRANULARITY: Duration = Duration::from_nanos(1);
