//! Bytes that an object has moved, and its current rate.

use std::time::Duration;

use hawser_types::{ByteCount, Rate};

/// Bytes in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct Moved {
    pub(super) sent: u64,
    pub(super) received: u64,
}

/// The traffic of an object up to the last update, and its rate.
#[derive(Clone, Copy, Default)]
pub(super) struct Meter {
    pub(super) last: Moved,
    pub(super) up: Rate,
    pub(super) down: Rate,
}

impl Moved {
    pub(super) const fn new(sent: ByteCount, received: ByteCount) -> Self {
        Self {
            sent: sent.as_u64(),
            received: received.as_u64(),
        }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.sent = self.sent.saturating_add(other.sent);
        self.received = self.received.saturating_add(other.received);
    }

    /// Returns the difference to `before`.
    pub(super) const fn since(self, before: Self) -> Self {
        Self {
            sent: self.sent.saturating_sub(before.sent),
            received: self.received.saturating_sub(before.received),
        }
    }
}

impl Meter {
    /// Creates a meter that begins at this earlier traffic.
    pub(super) fn at(last: Moved) -> Self {
        Self {
            last,
            ..Self::default()
        }
    }

    /// Updates the meter to the total traffic `now`, `span` after the last update. A new object has
    /// moved all of its traffic since then.
    pub(super) fn enter(&mut self, now: Moved, span: Duration) {
        let new = now.since(self.last);
        let rate = |bytes: u64| {
            if span.is_zero() {
                Rate::ZERO
            } else {
                Rate::over(ByteCount::new(bytes), span)
            }
        };
        *self = Self {
            last: now,
            up: rate(new.sent),
            down: rate(new.received),
        };
    }
}
