use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use hawser_sched::PathView;
use hawser_types::{Instant, LinkIndex, PathId};
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::heartbeat::link_in;
use super::selection::{self, Candidate};
use super::{Path, PathState};
use crate::event::Event;
use crate::route::{LinkInfo, Local, Route};
use crate::{AssociationConfig, Selection};

/// All paths of an association, with their selection.
#[derive(Debug)]
pub(crate) struct Paths {
    pub(super) config: AssociationConfig,
    /// Paths in the order of their numbers, which are never reused.
    pub(super) paths: Vec<Path>,
    next: PathId,
    /// Address that the peer prefers.
    preferred: Option<IpAddr>,
    pub(super) rng: StdRng,
    pub(super) views: Vec<PathView>,
    events: VecDeque<Event>,
    /// Time of the next selection by [`Selection::Paper`].
    reselect: Instant,
    /// The owner's link entries, in order of precedence.
    links: Vec<LinkInfo>,
    /// When the paths were judged last by [`Self::watch`].
    pub(super) watched: Instant,
}

impl Paths {
    pub(crate) fn new(config: &AssociationConfig, seed: u64) -> Self {
        Self {
            config: config.clone(),
            paths: Vec::new(),
            next: PathId::default(),
            preferred: None,
            rng: StdRng::seed_from_u64(seed),
            views: Vec::new(),
            events: VecDeque::new(),
            reselect: Instant::ZERO,
            links: Vec::new(),
            watched: Instant::ZERO,
        }
    }

    /// Sets what is known about links, also for paths added later; the first matching entry counts.
    pub(crate) fn set_links(&mut self, links: Vec<LinkInfo>) {
        self.links = links;
        for path in &mut self.paths {
            path.apply_link(&self.links);
        }
    }

    /// Adds a path, or finds it; `None` when there are too many already. `confirmed`: the peer has
    /// answered over it in the handshake.
    pub(crate) fn add(&mut self, now: Instant, route: Route, confirmed: bool) -> Option<PathId> {
        let id = match self.find(&route) {
            Some(id) => {
                if let Some(path) = self.path_mut(id) {
                    // The peer has named it.
                    path.validation = None;
                }
                id
            }
            None if self.paths.len() >= MAX_PATHS => return None,
            None => {
                let id = self.next;
                self.next = id.next();
                let mut path = Path::new(now, id, route, &self.config);
                path.apply_link(&self.links);
                self.paths.push(path);
                id
            }
        };
        if confirmed {
            self.on_answered(now, id);
        }
        Some(id)
    }

    /// Removes all paths from a local address and returns their ids. Packets in flight on them are
    /// lost.
    pub(crate) fn remove_local(&mut self, local: Local) -> Vec<PathId> {
        self.remove_where(|route| route.local == local)
    }

    /// Removes all paths to an address of the peer, whatever the port.
    pub(crate) fn remove_remote(&mut self, remote: IpAddr) -> Vec<PathId> {
        self.remove_where(|route| route.remote.ip() == remote)
    }

    /// Sets the address that the peer prefers: control chunks go there while it answers. Data still
    /// goes where it arrives first.
    pub(crate) fn prefer(&mut self, remote: IpAddr) {
        self.preferred = Some(remote);
    }

    pub(crate) fn find(&self, route: &Route) -> Option<PathId> {
        let path = self.paths.iter().find(|path| path.route == *route)?;
        Some(path.id)
    }

    /// Returns the path on a route.
    pub(crate) fn on_route(&mut self, route: &Route) -> Option<&mut Path> {
        self.paths.iter_mut().find(|path| path.route == *route)
    }

    /// Returns a path; `None` for one that was removed.
    pub(crate) fn path(&self, id: PathId) -> Option<&Path> {
        let place = self.place(id)?;
        self.paths.get(place)
    }

    /// Returns a path to change it.
    pub(crate) fn path_mut(&mut self, id: PathId) -> Option<&mut Path> {
        let place = self.place(id)?;
        self.paths.get_mut(place)
    }

    /// Returns for how long no data has left over the path by which the quickest acknowledgements
    /// of the path `id` come. The peer uses a way back only where data comes. Zero while that path
    /// fails: then a longer round trip would only delay what the failure calls for.
    pub(crate) fn way_back_rests(&self, now: Instant, id: PathId) -> Duration {
        let over = self.path(id).and_then(|path| path.way_back.quickest_over());
        let way = over.and_then(|over| self.path(over));
        way.filter(|way| way.state == PathState::Active && !way.is_suspect(now))
            .map_or(Duration::ZERO, |way| now.since(way.last_sent))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Path> {
        self.paths.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Path> {
        self.paths.iter_mut()
    }

    /// Returns since when no path to the peer's address has answered; `None` while one does.
    pub(crate) fn silent_since(&self, remote: IpAddr) -> Option<Instant> {
        let mut since = Instant::ZERO;
        for path in &self.paths {
            if path.route.remote.ip() == remote {
                since = since.max(path.heard_at);
                if path.state == PathState::Active {
                    return None;
                }
            }
        }
        Some(since)
    }

    /// Returns the path for control chunks: an active one, with the fewest recent time-outs, to the
    /// address that the peer prefers, the fastest.
    pub(crate) fn best(&self, now: Instant) -> Option<PathId> {
        let rank = |path: &&Path| {
            let rtt = path.rtt.smoothed().unwrap_or_else(|| path.rtt.rto());
            let state = match path.state {
                PathState::Active if path.is_suspect(now) => 1,
                PathState::Active => 0,
                PathState::Inactive => 2,
                PathState::Unconfirmed => 3,
            };
            let unwanted = self
                .preferred
                .is_some_and(|it| it != path.route.remote.ip());
            (state, path.errors, unwanted, rtt, path.id)
        };
        Some(self.paths.iter().min_by_key(rank)?.id)
    }

    /// Returns the largest packet that every selected path carries, or is expected to carry before
    /// any retransmission. A chunk of this size can be retransmitted on any path, in the worst case
    /// in IP fragments.
    pub(crate) fn smallest_packet(&self) -> usize {
        let sizes = self.paths.iter().filter(|path| path.selected);
        sizes
            .map(|path| path.packet_size.max(path.size.expected()))
            .min()
            .unwrap_or(self.config.base_packet())
    }

    /// Counts a retransmission time-out or an unanswered heartbeat of a path. `sent`: send time of
    /// the unanswered packet.
    pub(crate) fn on_timeout_counted(&mut self, now: Instant, sent: Instant, id: PathId) {
        let most = self.config.path_max_retransmissions;
        let Some(path) = self.path_mut(id) else {
            return;
        };
        if path.errors == 0 {
            path.failing_since = sent.max(path.heard_at);
        }
        path.errors = path.errors.saturating_add(1);
        if path.state == PathState::Active && path.has_failed(now, most) {
            path.state = PathState::Inactive;
            let route = path.route;
            tracing::debug!(path = %id, "path is down");
            self.events.push_back(Event::PathDown(route));
            self.select();
        }
    }

    /// Handles an acknowledgement of something sent over a path.
    pub(crate) fn on_answered(&mut self, now: Instant, id: PathId) {
        let Some(path) = self.path_mut(id) else {
            return;
        };
        path.on_heard(now);
        if path.state != PathState::Active {
            path.state = PathState::Active;
            let route = path.route;
            tracing::debug!(path = %id, "path is up");
            self.events.push_back(Event::PathUp(route));
            self.select();
        }
    }

    /// Tells whether the association is lost, since every path has exceeded its limit of time-outs.
    ///
    /// RFC 9260 §8.1 adds up the time-outs of all paths, of which one at a time carries data. Here
    /// all paths carry data, so that a short outage of all would add up. Therefore each path counts
    /// its own, and the association is lost when all have failed. An association without any path
    /// waits for a new one, and candidates do not put off the end.
    pub(crate) fn is_lost(&self, now: Instant) -> bool {
        let most = self.config.association_max_retransmissions;
        let mut paths = self.paths.iter().filter(|path| !path.is_candidate());
        let mut is_any = false;
        let all_given_up = paths.all(|path| {
            is_any = true;
            path.is_given_up(now, most)
        });
        is_any && all_given_up
    }

    /// Handles a HEARTBEAT, which may state the peer's link.
    pub(crate) fn on_heartbeat(&mut self, route: &Route, info: &[u8]) {
        let Some(link) = link_in(info) else {
            return;
        };
        if let Some(id) = self.find(route) {
            self.set_peer_link(id, link);
        }
    }

    /// The path leaves the peer by this link.
    pub(super) fn set_peer_link(&mut self, id: PathId, link: LinkIndex) {
        let links = std::mem::take(&mut self.links);
        if let Some(path) = self
            .path_mut(id)
            .filter(|path| path.peer_link != Some(link))
        {
            path.peer_link = Some(link);
            path.apply_link(&links);
        }
        self.links = links;
    }

    /// Returns the next [`Event::PathUp`] or [`Event::PathDown`].
    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns when [`Self::reselect`] has something to do.
    pub(super) fn reselects_at(&self) -> Option<Instant> {
        match self.config.selection {
            Selection::Paper { .. } => Some(self.reselect),
            Selection::Answering => None,
        }
    }

    /// Selects the paths that carry data, if that is due by [`Selection::Paper`].
    pub(super) fn reselect(&mut self, now: Instant) {
        if self.reselects_at().is_some_and(|at| at <= now) {
            self.reselect = now + self.config.heartbeat_interval;
            self.select();
        }
    }

    /// Selects the paths that carry data.
    pub(super) fn select(&mut self) {
        let chosen = match self.config.selection {
            Selection::Answering => None,
            Selection::Paper { theta } => {
                // By the minimum round-trip time: with the smoothed one, the queue of the path's
                // own data would deselect and reselect it.
                let candidate = |path: &Path| Candidate {
                    route: path.route,
                    rtt: path.rtt.min().filter(|_| path.state == PathState::Active),
                };
                let candidates: Vec<_> = self.paths.iter().map(candidate).collect();
                Some(selection::select(&candidates, theta))
            }
        };
        for (place, path) in self.paths.iter_mut().enumerate() {
            path.selected = match &chosen {
                Some(chosen) => chosen.contains(&place),
                None => path.state == PathState::Active,
            };
        }
    }

    fn remove_where(&mut self, leaves: impl Fn(&Route) -> bool) -> Vec<PathId> {
        let mut gone = Vec::new();
        self.paths.retain(|path| {
            let stays = !leaves(&path.route);
            if !stays {
                gone.push(path.id);
            }
            stays
        });
        for path in &mut self.paths {
            path.way_back.forget(&gone);
        }
        if !gone.is_empty() {
            self.select();
        }
        gone
    }

    pub(super) fn place(&self, id: PathId) -> Option<usize> {
        self.paths.binary_search_by_key(&id, |path| path.id).ok()
    }
}

/// Maximum number of paths: eight addresses of this host with eight of the peer.
const MAX_PATHS: usize = 64;

#[cfg(test)]
mod tests;
