//! What a session takes memory from, beside what its configuration gives its data.

use hawser_types::{Budget, ByteCount};

/// The budgets of one session.
#[derive(Clone, Debug)]
pub(crate) struct SessionBudgets {
    /// What the peer's channels read into: a part of what all peers' channels read into. While
    /// there is room, reads are large and channels keep their buffers. When the whole is full,
    /// channels read little at a time and keep nothing. If this peer then holds more than its part,
    /// those of its channels end that wait for the rest of a record.
    pub(crate) reading: Budget,
    /// The peer's: sessions, channels and streams are charged to it.
    pub(crate) account: Budget,
}

impl SessionBudgets {
    /// Those of a client, which opens sessions and channels by itself: only what all of them read
    /// into is bounded.
    pub(crate) fn of_client(reading: ByteCount) -> Self {
        Self {
            reading: Budget::new(reading),
            account: Budget::unbounded(),
        }
    }
}
