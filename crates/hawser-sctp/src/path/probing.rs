//! Heartbeats, packet size probes and time-outs of all paths.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use hawser_types::{Instant, PathId};
use rand::Rng;

use super::heartbeat::{HeartbeatInfo, plain_size};
use super::standing::TRIAL_REPEATED_AFTER;
use super::{Path, PathState, Paths, UNCONFIRMED_TRIES};
use crate::{Route, Selection};

/// A HEARTBEAT to be sent now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeartbeatToSend {
    pub(crate) path: PathId,
    /// Heartbeat information, which the peer returns.
    pub(crate) info: Bytes,
    /// Length of the value of a PAD chunk in the same packet; 0 for no PAD chunk.
    pub(crate) pad: u16,
}

impl Paths {
    /// Returns a HEARTBEAT that is due.
    pub(crate) fn poll_heartbeat(&mut self, now: Instant) -> Option<HeartbeatToSend> {
        let interval = self.config.heartbeat_interval;
        let named = self.config.announces_links;
        let plain = self.config.framing.packet_header() + plain_size(named);
        let due = self.paths.iter_mut().find(|path| {
            let is_free = path.heartbeat.timeout().is_none() && path.may_send(plain);
            is_free && path.next_heartbeat(interval) <= now
        });
        if let Some(path) = due {
            let nonce = self.rng.random();
            // A jitter of half a time-out, so that the heartbeats of paths do not stay in step.
            let spread = self.rng.random_range(0.5..1.5);
            path.on_heartbeat_sent(now, nonce, interval, spread);
            // The paper compares the time that a full packet takes: its RTT = p/b + ε (§3.4).
            let pad = match self.config.selection {
                Selection::Paper { .. } if !path.is_candidate() => {
                    path.packet_size.saturating_sub(plain)
                }
                _ => 0,
            };
            path.standing.on_first_sent(now);
            return Some(to_send(path, nonce, named, pad));
        }
        let mut paths = self.paths.iter_mut();
        if let Some(path) = paths.find(|path| path.standing.is_second_due()) {
            let nonce = self.rng.random();
            path.standing.on_second_sent(nonce, path.packet_size);
            let pad = path.packet_size.saturating_sub(plain);
            return Some(to_send(path, nonce, named, pad));
        }
        let mut answering = self.paths.iter_mut().filter(|path| path.has_answered_all());
        let (path, size) = answering.find_map(|path| {
            let size = path.size.due(now)?;
            Some((path, size))
        })?;
        let nonce = self.rng.random();
        path.size.on_sent(now, nonce, size, path.rtt.rto());
        Some(to_send(path, nonce, named, size - plain))
    }

    /// Handles a HEARTBEAT ACK that came from `from`; one that matches no heartbeat is ignored.
    /// Returns the route of the candidate that it has confirmed.
    pub(crate) fn on_heartbeat_ack(
        &mut self,
        now: Instant,
        from: SocketAddr,
        info: &[u8],
    ) -> Option<Route> {
        let id = self.answered_by(now, from, info)?;
        let confirmed = self.on_candidate_answered(now, id);
        self.on_answered(now, id);
        self.select();
        confirmed
    }

    /// Counts heartbeats that were not answered in time. Returns the paths that are gone: others to
    /// the same address have replaced them.
    pub(crate) fn handle_timeout(&mut self, now: Instant) -> Vec<PathId> {
        for path in &mut self.paths {
            path.was_suspect = path.is_silent(now);
        }
        self.watch(now);
        for (id, asked) in self.unanswered(now) {
            self.on_timeout_counted(now, asked, id);
        }
        let gone = self.remove_stale(now);
        self.reselect(now);
        gone
    }

    /// Returns when [`Self::handle_timeout`] or [`Self::poll_heartbeat`] has something to do.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let wakes = self.paths.iter().map(|path| self.wakes_at(path));
        wakes.chain(self.reselects_at()).min()
    }

    /// Returns the path whose heartbeat `info` answers. Only its own address answers for a
    /// candidate: what was sent on to the peer from there comes back from elsewhere.
    fn answered_by(&mut self, now: Instant, from: SocketAddr, info: &[u8]) -> Option<PathId> {
        let (id, nonce) = HeartbeatInfo::decode(info, self.config.announces_links)?;
        let rests = self.way_back_rests(now, id);
        if self.on_trial_answered(now, id, nonce).is_some() {
            return Some(id);
        }
        let path = self.path_mut(id)?;
        if path.is_candidate() && path.route.remote != from {
            return None;
        }
        let rtt = match path.heartbeat.on_answered(nonce) {
            Some(asked) => {
                path.standing.on_first_answered(now, asked);
                now.since(asked)
            }
            None => path.size.on_answered(now, nonce)?,
        };
        path.heartbeat.forget_unanswered();
        path.on_round_trip(now, rtt, Some(id), rests);
        path.take_packet_size();
        Some(id)
    }

    /// Returns the paths whose heartbeat has just timed out, and its send time.
    fn unanswered(&mut self, now: Instant) -> Vec<(PathId, Instant)> {
        let mut paths = Vec::new();
        for path in &mut self.paths {
            path.size.handle_timeout(now, path.errors == 0);
            // While data is in flight, its own time-outs count instead.
            if let Some(asked) = path.heartbeat.handle_timeout(now)
                && path.flight.is_empty()
            {
                paths.push((path.id, asked));
            }
        }
        paths
    }

    /// Returns when a path needs attention.
    fn wakes_at(&self, path: &Path) -> Instant {
        let named = self.config.announces_links;
        let plain = self.config.framing.packet_header() + plain_size(named);
        if let Some(ends_at) = path.candidate_ends_at().filter(|_| !path.may_send(plain)) {
            return ends_at;
        }
        let next = || path.next_heartbeat(self.config.heartbeat_interval);
        let heartbeat = path.heartbeat.timeout().unwrap_or_else(next);
        let size = path.size.wakes_at().filter(|_| path.has_answered_all());
        let suspect = path.suspect_at().filter(|_| !path.was_suspect);
        [size, suspect, path.probation, path.candidate_ends_at()]
            .into_iter()
            .flatten()
            .fold(heartbeat, Instant::min)
    }
}

impl Path {
    /// Returns when the next heartbeat is due. A path that carries data needs none unless its
    /// acknowledgements stay away.
    fn next_heartbeat(&self, interval: Duration) -> Instant {
        let due = self.heartbeat.due();
        if self.heartbeat.is_requested() {
            self.last_sent
        } else if let Some(next) = self.standing.next_trial() {
            next
        } else if self.was_suspect {
            self.heartbeat.latest_timeout().unwrap_or(Instant::ZERO)
        } else if self.state == PathState::Active && self.rtt.smoothed().is_some() {
            due.max(self.last_sent + interval)
        } else {
            due
        }
    }

    fn on_heartbeat_sent(&mut self, now: Instant, nonce: u64, interval: Duration, spread: f64) {
        // The interval is limited, so that the return of a silent path is noticed.
        let rto = self.rtt.rto_without_backoff();
        let doubled = rto.saturating_mul(1 << self.heartbeat.doublings());
        let longest = match self.state {
            _ if self.standing.crawls() => TRIAL_REPEATED_AFTER,
            PathState::Active => interval / PROBES_PER_INTERVAL,
            // Such a path may be down for long.
            PathState::Unconfirmed | PathState::Inactive => interval,
        };
        let patience = doubled.min(longest.max(rto));
        let pause = match self.state {
            PathState::Unconfirmed if self.errors < UNCONFIRMED_TRIES => Duration::ZERO,
            // The peer chooses the address, so that one that stays silent gets few heartbeats.
            PathState::Unconfirmed => UNCONFIRMED_PAUSE,
            PathState::Active | PathState::Inactive => interval,
        };
        let pause = pause.saturating_add(patience.mul_f64(spread));
        self.heartbeat.on_sent(now, nonce, patience, pause);
    }
}

/// Builds a heartbeat. `named`: with the link that it leaves by.
fn to_send(path: &Path, nonce: u64, named: bool, pad: usize) -> HeartbeatToSend {
    let info = HeartbeatInfo {
        path: path.id,
        nonce,
        link: named.then_some(path.route.local.link),
    };
    HeartbeatToSend {
        path: path.id,
        info: info.encode(),
        pad: u16::try_from(pad).unwrap_or(u16::MAX),
    }
}

/// Pause between heartbeats to an unconfirmed address after [`UNCONFIRMED_TRIES`].
const UNCONFIRMED_PAUSE: Duration = Duration::from_secs(60);
/// Number of heartbeats in an interval to a silent path, until it is inactive.
const PROBES_PER_INTERVAL: u32 = 4;
