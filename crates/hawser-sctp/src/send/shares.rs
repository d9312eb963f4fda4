//! Turns between messages that the owner places and all others.

use crate::ToPlace;

/// Bytes sent of both kinds, so that each gets half of what the paths carry while it has enough.
///
/// The share that one kind does not use belongs to the other: the lag of one kind is limited.
#[derive(Debug, Default)]
pub(super) struct Shares {
    placed: u64,
    queued: u64,
    /// Messages that the owner still has to place.
    pub(super) to_place: ToPlace,
}

impl Shares {
    pub(super) fn on_placed(&mut self, bytes: u64) {
        self.placed += bytes;
        self.queued = self.queued.max(self.placed.saturating_sub(MOST_OWED));
    }

    pub(super) fn on_queued(&mut self, bytes: u64) {
        self.queued += bytes;
        self.placed = self.placed.max(self.queued.saturating_sub(MOST_OWED));
    }

    /// Returns the bytes that may be placed before others have their turn.
    pub(super) fn placed_turn(&self) -> u64 {
        (self.queued + TURN).saturating_sub(self.placed)
    }

    /// Tells whether others wait for what the owner places.
    pub(super) fn is_turn_of_placed(&self) -> bool {
        self.to_place == ToPlace::InTurn && self.queued >= self.placed + TURN
    }
}

/// Bytes of a turn: a few packets, so that a call does not wait for long.
const TURN: u64 = 6000;
/// Bytes that one kind may lag behind the other.
const MOST_OWED: u64 = 64 * 1024;
