//! What a session takes memory from, beside what its configuration gives its data.

use hawser_types::{Budget, ByteCount};

/// The budgets of one session.
#[derive(Clone, Debug)]
pub(crate) struct SessionBudgets {
    /// What channels read into: of the peer, as a part of all of the process. Large reads are
    /// cheap, and a channel keeps its buffers for the next ones. A peer that fills many channels a
    /// little would make a process hold large buffers for each of them. So once all of them
    /// together are at the bound, channels read little at a time and keep nothing; and of a peer
    /// that holds more than its part then, those end that wait for the rest of a record.
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
            account: Budget::new(ByteCount::new(u64::MAX)),
        }
    }
}
