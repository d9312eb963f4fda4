//! An address translator that forgets connections, between a link and the server.

use std::time::Duration;

use hawser_scenario::{Forgotten, Nat};
use hawser_types::Instant;

use crate::tcp::Packet;

/// What a translation knows of a connection: when its last packet came, from either side.
///
/// Where a link has no translation, it stays as it was.
#[derive(Clone, Copy, Debug)]
pub(super) enum Mapping {
    Known(Instant),
    /// It was silent for too long. What knows it outside is gone for good: a packet from inside
    /// would leave under another port.
    Gone,
}

/// What becomes of a packet from the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outward {
    Passes,
    /// It vanishes.
    Dropped,
    /// It reaches the server under another port, which answers with a reset.
    Refused,
}

impl Mapping {
    pub(super) fn new(now: Instant) -> Self {
        Self::Known(now)
    }

    /// A packet from the client comes to the translation `nat` of its link.
    pub(super) fn on_outward(
        &mut self,
        now: Instant,
        nat: Option<Nat>,
        packet: &Packet,
    ) -> Outward {
        self.forget(now, nat.map(|nat| nat.forget));
        if self.is_known() || packet.is_greeting() {
            *self = Self::Known(now);
            return Outward::Passes;
        }
        let is_reset = nat.is_some_and(|nat| nat.then == Forgotten::Reset);
        if is_reset && !packet.is_reset() {
            Outward::Refused
        } else {
            Outward::Dropped
        }
    }

    /// A packet from the server comes to the translation `nat` of the link. Returns true if it
    /// goes on.
    pub(super) fn on_inward(&mut self, now: Instant, nat: Option<Nat>) -> bool {
        self.forget(now, nat.map(|nat| nat.forget));
        let is_known = self.is_known();
        if is_known {
            *self = Self::Known(now);
        }
        is_known
    }

    fn is_known(self) -> bool {
        matches!(self, Self::Known(_))
    }

    /// Forgets a connection that was silent for longer than the translation remembers.
    fn forget(&mut self, now: Instant, after: Option<Duration>) {
        if let (Self::Known(last), Some(after)) = (*self, after)
            && now.since(last) > after
        {
            *self = Self::Gone;
        }
    }
}
