//! Paths that packets of the peer have shown: challenged before they count, and what becomes of
//! those that they replace.
//!
//! A packet from a new address or port proves only that the peer made it: any host on the way may
//! have forwarded it. So its route is a *candidate*: unconfirmed, asked by a heartbeat, and without
//! any effect on other paths until it has answered (RFC 9260 §5.4). Then a path to another port of
//! the same address (a *twin*) may be one that a translator has forgotten, or another link behind
//! the same translator. The twin is removed if nothing comes from it within its time-out.

use hawser_types::{Instant, PathId};

use super::validation::Validation;
use super::{Path, PathState, Paths};
use crate::Route;

impl Paths {
    /// Handles a packet with `size` bytes. Returns true if its route is a path that packets of a
    /// stranger cannot have made.
    pub(crate) fn on_packet(&mut self, now: Instant, route: &Route, size: usize) -> bool {
        let Some(path) = self.on_route(route) else {
            return false;
        };
        path.received.add(size);
        path.arrived_at = now;
        path.probation = None;
        match &mut path.validation {
            Some(validation) => {
                validation.on_received(size);
                false
            }
            None => true,
        }
    }

    /// Handles a packet with `size` bytes that leaves.
    pub(crate) fn on_packet_sent(&mut self, route: &Route, size: usize) {
        if let Some(path) = self.on_route(route) {
            path.sent.add(size);
            if let Some(validation) = &mut path.validation {
                validation.on_sent(size);
            }
        }
    }

    /// Adds the route of a packet as a candidate. With too many, the oldest makes room.
    pub(crate) fn add_candidate(&mut self, now: Instant, route: Route) {
        let candidates = || self.iter().filter(|path| path.is_candidate());
        if candidates().count() >= MAX_CANDIDATES
            && let Some(oldest) = candidates().map(|path| path.id).min()
        {
            self.paths.retain(|path| path.id != oldest);
        }
        if let Some(id) = self.add(now, route, false)
            && let Some(path) = self.path_mut(id)
        {
            path.validation = Some(Validation::new(now));
        }
    }

    /// Forgets a candidate, or the path that it has become.
    pub(crate) fn remove_route(&mut self, route: &Route) {
        self.paths.retain(|path| path.route != *route);
        self.select();
    }

    /// Handles an answer on a path. Returns its route if it was a candidate.
    pub(super) fn on_candidate_answered(&mut self, now: Instant, id: PathId) -> Option<Route> {
        let path = self.path_mut(id)?;
        let (route, since) = (path.route, path.validation.take()?.since());
        let is_announced = path.peer_link.is_some();
        let is_twin = |path: &Path| path.id != id && path.is_twin_of(&route);
        let twins = self.iter().filter(|it| is_twin(it));
        let links: Vec<_> = twins.map(|it| it.peer_link).collect();
        // Until the peer has said another, so that the user's rules for the link hold meanwhile.
        if let (false, [Some(link)]) = (is_announced, &links[..]) {
            self.set_peer_link(id, *link);
        }
        for twin in self.paths.iter_mut().filter(|it| is_twin(it)) {
            if twin.arrived_at < since {
                twin.probation = Some(now + twin.rtt.rto_without_backoff());
                twin.request_heartbeat();
            }
        }
        Some(route)
    }

    /// Removes candidates that have not answered in time, and paths that a twin has replaced.
    /// Returns the latter.
    pub(super) fn remove_stale(&mut self, now: Instant) -> Vec<PathId> {
        self.paths
            .retain(|path| path.candidate_ends_at().is_none_or(|at| at > now));
        let is_stale = |path: &&Path| {
            let is_silent = path.probation.is_some_and(|until| until <= now);
            let mut twins = self
                .iter()
                .filter(|other| other.id != path.id && other.is_twin_of(&path.route));
            (is_silent || path.state == PathState::Inactive) && twins.any(Path::has_answered_all)
        };
        let stale: Vec<PathId> = self.iter().filter(is_stale).map(|path| path.id).collect();
        for path in &mut self.paths {
            path.probation.take_if(|until| *until <= now);
        }
        if !stale.is_empty() {
            self.paths.retain(|path| !stale.contains(&path.id));
            self.select();
        }
        stale
    }
}

impl Path {
    /// Tells whether the path is there only because a packet came from it, and has not answered.
    pub(crate) fn is_candidate(&self) -> bool {
        self.validation.is_some()
    }

    /// Returns when the path is forgotten, if it is a candidate.
    pub(super) fn candidate_ends_at(&self) -> Option<Instant> {
        self.validation.as_ref().map(Validation::ends_at)
    }

    /// Tells whether a packet of this size may be sent over the path, although it is a candidate.
    pub(super) fn may_send(&self, size: usize) -> bool {
        let validation = self.validation.as_ref();
        validation.is_none_or(|validation| validation.allows(size))
    }

    /// Tells whether the path leads from the same place to the same address of the peer, and is
    /// more than a candidate.
    fn is_twin_of(&self, route: &Route) -> bool {
        let own = &self.route;
        own.local == route.local && own.remote.ip() == route.remote.ip() && !self.is_candidate()
    }
}

/// Maximum number of candidates.
pub(crate) const MAX_CANDIDATES: usize = 8;
