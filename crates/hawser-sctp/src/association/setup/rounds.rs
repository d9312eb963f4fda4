use std::net::SocketAddr;
use std::time::Duration;

use hawser_types::Instant;

use super::Beginning;
use crate::Route;

/// Sends one packet over all routes in turn until it is answered: T1-init and T1-cookie.
///
/// Within a round each route has a short head start over the next one, so that a dead link costs no
/// whole time-out; between rounds the wait doubles.
#[derive(Debug)]
pub(super) struct Rounds {
    routes: Vec<Route>,
    /// Which comes next.
    next: usize,
    /// Rounds left after this one.
    left: u32,
    wait: Duration,
    max_wait: Duration,
    at: Instant,
    /// When it was last sent.
    sent: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Nothing,
    Send(Route),
    GiveUp,
}

impl Rounds {
    /// Over `first`, if given, and over every other route to `remotes`; due at once.
    pub(super) fn new(
        now: Instant,
        beginning: &Beginning,
        remotes: &[SocketAddr],
        first: Option<Route>,
    ) -> Self {
        let config = &beginning.config;
        let mut routes: Vec<Route> = first.into_iter().collect();
        // The first ones cover as many addresses of both ends as there are.
        for shift in 0..remotes.len() {
            for (place, local) in beginning.locals.iter().enumerate() {
                let route = Route {
                    local: *local,
                    remote: remotes[(place + shift) % remotes.len()],
                };
                let is_possible = local.address.is_ipv4() == route.remote.is_ipv4();
                if is_possible && routes.len() < MAX_ROUTES && !routes.contains(&route) {
                    routes.push(route);
                }
            }
        }
        Self {
            routes,
            next: 0,
            left: config.max_init_retransmissions,
            wait: config.rto_initial,
            max_wait: config.rto_max,
            at: now,
            sent: now,
        }
    }

    pub(super) fn at(&self) -> Instant {
        self.at
    }

    /// Whether it may go once more out of turn, as it does then; not too often.
    pub(super) fn hasten(&mut self, now: Instant) -> bool {
        let may = now >= self.sent + HEAD_START;
        if may {
            self.sent = now;
        }
        may
    }

    /// The route that is tried first.
    pub(super) fn first(&self) -> Option<Route> {
        self.routes.first().copied()
    }

    /// Where the routes lead.
    pub(super) fn remotes(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        self.routes.iter().map(|route| route.remote)
    }

    pub(super) fn take(&mut self, now: Instant) -> Due {
        if now < self.at {
            return Due::Nothing;
        }
        if self.next == self.routes.len() {
            if self.left == 0 || self.routes.is_empty() {
                return Due::GiveUp;
            }
            self.left -= 1;
            self.wait = (self.wait * 2).min(self.max_wait);
            self.next = 0;
        }
        let route = self.routes[self.next];
        self.next += 1;
        self.sent = now;
        let is_last = self.next == self.routes.len();
        self.at = now
            + if is_last {
                self.wait
            } else {
                self.wait.min(HEAD_START)
            };
        Due::Send(route)
    }
}

/// How long a route is waited for before the next one is tried.
const HEAD_START: Duration = Duration::from_millis(250);

/// The most routes that a beginning tries.
const MAX_ROUTES: usize = 32;
