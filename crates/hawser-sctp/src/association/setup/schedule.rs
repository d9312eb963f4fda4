use std::net::SocketAddr;
use std::time::Duration;

use hawser_types::Instant;

use crate::{AssociationConfig, ConnectStrategy, Local, Route};

/// Schedule that repeats one packet over all routes until it is answered: T1-init and T1-cookie.
///
/// Within a round, each route has a short head start over the next one, so that a dead link does
/// not cost a whole time-out. The wait between rounds doubles. Where the peer expects the
/// association, a round uses all routes at once, and the wait starts short and grows fourfold: few
/// packets, and little delay if the peer was told late.
#[derive(Debug)]
pub(super) struct HandshakeSchedule {
    routes: Vec<Route>,
    /// Index of the next route.
    next: usize,
    /// Number of rounds left after this one.
    left: u32,
    wait: Duration,
    max_wait: Duration,
    /// Wait for an answer on one route before the next is tried.
    head_start: Duration,
    /// Factor by which the wait grows from round to round.
    growth: u32,
    began: Instant,
    at: Instant,
    /// Time of the last transmission.
    sent: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Nothing,
    Send(Route),
    GiveUp,
}

impl HandshakeSchedule {
    /// Creates a schedule over `first`, if given, and every other route to `remotes`; the first
    /// packet is due at once.
    pub(super) fn new(
        now: Instant,
        config: &AssociationConfig,
        locals: &[Local],
        remotes: &[SocketAddr],
        first: Option<Route>,
    ) -> Self {
        let mut routes: Vec<Route> = first.into_iter().collect();
        // The first routes cover as many addresses of both ends as possible.
        for shift in 0..remotes.len() {
            for (place, local) in locals.iter().enumerate() {
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
        let (wait, head_start, growth) = match config.connect {
            ConnectStrategy::InTurn => (config.rto_initial, HEAD_START, 2),
            ConnectStrategy::AtOnce => (FIRST_WAIT.min(config.rto_initial), Duration::ZERO, 4),
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

    /// Adapts the schedule of the second handshake packet: the answer to the first, sent at
    /// `began`, has shown how long an answer takes.
    pub(super) fn after_answer(self, began: Instant, config: &AssociationConfig) -> Self {
        if config.connect == ConnectStrategy::InTurn {
            return self;
        }
        let answered = self.began.since(began) * 2;
        Self {
            wait: answered.max(self.wait).min(config.rto_initial),
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

    /// Tells whether the packet may be repeated ahead of schedule, and counts it as sent; limited
    /// in frequency.
    pub(super) fn take_early(&mut self, now: Instant) -> bool {
        let may = now >= self.sent + self.wait.min(HEAD_START);
        if may {
            self.sent = now;
        }
        may
    }

    /// Returns the route that is tried first.
    pub(super) fn first(&self) -> Option<Route> {
        self.routes.first().copied()
    }

    /// Returns the remote address of every route.
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

/// Head start of a route where the peer does not expect the association.
const HEAD_START: Duration = Duration::from_millis(250);

/// First wait where the peer expects the association: it has usually been told by then.
const FIRST_WAIT: Duration = Duration::from_millis(10);

/// Maximum number of routes that a setup tries.
const MAX_ROUTES: usize = 32;
