//! The budgets of a session's memory, beside the bounds of its data in its configuration.

use hawser_types::{Budget, ByteCount};

/// The budgets of one session.
#[derive(Clone, Debug)]
pub(crate) struct SessionBudgets {
    /// Memory that the peer's channels read into: a part of that of all peers' channels. While
    /// there is room, reads are large and channels keep their buffers. When the whole is full,
    /// channels read little at a time and keep nothing. If this peer then holds more than its part,
    /// its channels that wait for the rest of a record end.
    pub(crate) reading: Budget,
    /// The peer's budget: sessions, channels and streams are charged to it.
    pub(crate) account: Budget,
}

impl SessionBudgets {
    /// The budgets of a client, which opens sessions and channels by itself: only the memory that
    /// all channels read into is bounded.
    pub(crate) fn of_client(reading: ByteCount) -> Self {
        Self {
            reading: Budget::new(reading),
            account: Budget::unbounded(),
        }
    }
}
