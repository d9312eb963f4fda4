use std::net::SocketAddr;
use std::time::Duration;

use hawser_types::Instant;

use super::Beginning;
use crate::{Begin, Route};

/// Sends one packet over all routes in turn until it is answered: T1-init and T1-cookie.
///
/// Within a round each route has a short head start over the next one, so that a dead link costs no
/// whole time-out; between rounds the wait doubles. Where the peer expects it, all routes are taken at once,
/// and waits begin short and grow fourfold: few packets, and little lost when the peer heard late.
#[derive(Debug)]
pub(super) struct Rounds {
    routes: Vec<Route>,
    /// Which comes next.
    next: usize,
    /// Rounds left after this one.
    left: u32,
    wait: Duration,
    max_wait: Duration,
    /// How long a route is waited for before the next one is tried.
    head_start: Duration,
    /// By what the wait grows from round to round.
    growth: u32,
    began: Instant,
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
        let (wait, head_start, growth) = match config.begin {
            Begin::InTurn => (config.rto_initial, HEAD_START, 2),
            Begin::AtOnce => (FIRST_WAIT.min(config.rto_initial), Duration::ZERO, 4),
        };
        Self {
            routes,
            next: 0,
            left: config.max_init_retransmissions,
            wait,
            max_wait: config.rto_max,
            head_start,
            growth,
            began: now,
            at: now,
            sent: now,
        }
    }

    /// Those that follow on an answer to what began then: how long an answer takes is known by now.
    pub(super) fn following(self, began: Instant, beginning: &Beginning) -> Self {
        if beginning.config.begin == Begin::InTurn {
            return self;
        }
        let answered = self.began.since(began) * 2;
        Self {
            wait: answered.max(self.wait).min(beginning.config.rto_initial),
            growth: 2,
            ..self
        }
    }

    pub(super) fn began(&self) -> Instant {
        self.began
    }

    pub(super) fn at(&self) -> Instant {
        self.at
    }

    /// Whether it may go once more out of turn, as it does then; not too often.
    pub(super) fn hasten(&mut self, now: Instant) -> bool {
        let may = now >= self.sent + self.wait.min(HEAD_START);
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
            self.wait = (self.wait * self.growth).min(self.max_wait);
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
                self.wait.min(self.head_start)
            };
        Due::Send(route)
    }
}

/// Of those who do not expect it.
const HEAD_START: Duration = Duration::from_millis(250);

/// A peer that was told at the same time has heard by then, if it can.
const FIRST_WAIT: Duration = Duration::from_millis(10);

/// The most routes that a beginning tries.
const MAX_ROUTES: usize = 32;
