use std::collections::VecDeque;

use bytes::Bytes;

/// Datagrams of one stream that came and were not taken.
#[derive(Debug, Default)]
pub(crate) struct ArrivedDatagrams {
    list: VecDeque<Bytes>,
    /// Their cost together.
    cost: usize,
}

/// Outcome of taking a datagram in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    is_kept: bool,
    cost: usize,
    freed: usize,
    dropped: u64,
}

impl ArrivedDatagrams {
    /// Takes a datagram in, if the session has `room` for it. The oldest make room where the
    /// stream has too many.
    pub(crate) fn push(&mut self, payload: &[u8], room: usize) -> Taken {
        let mut taken = Taken::default();
        let cost = datagram_cost(payload.len());
        while self.cost + cost > MAX_COST || self.list.len() >= MAX_COUNT {
            let Some((_, oldest)) = self.pop() else {
                break;
            };
            taken.freed += oldest;
            taken.dropped += 1;
        }
        if cost > room + taken.freed {
            taken.dropped += 1;
            return taken;
        }
        // As a slice it would keep the whole buffer that it came in alive.
        self.list.push_back(Bytes::copy_from_slice(payload));
        self.cost += cost;
        taken.is_kept = true;
        taken.cost = cost;
        taken
    }

    /// Takes out the oldest datagram. Also returns what it cost.
    pub(crate) fn pop(&mut self) -> Option<(Bytes, usize)> {
        let payload = self.list.pop_front()?;
        let cost = datagram_cost(payload.len());
        self.cost -= cost;
        Some((payload, cost))
    }

    /// Returns what the datagrams cost that were not taken.
    pub(crate) fn cost(&self) -> usize {
        self.cost
    }
}

impl Taken {
    /// True if the datagram is there to be taken.
    pub(crate) fn is_kept(self) -> bool {
        self.is_kept
    }

    /// Returns what the datagram costs; 0 if it is not kept.
    pub(crate) fn cost(self) -> usize {
        self.cost
    }

    /// Returns what the older datagrams cost that were dropped.
    pub(crate) fn freed(self) -> usize {
        self.freed
    }

    /// Returns how many datagrams were dropped, this one included.
    pub(crate) fn dropped(self) -> u64 {
        self.dropped
    }
}

/// Returns the bytes of memory that a datagram costs while it waits. An empty one has its place in
/// a queue, and an allocation of a few bytes costs more than these.
pub(crate) fn datagram_cost(payload: usize) -> usize {
    payload + OVERHEAD
}

/// Place in a queue, and bookkeeping of the allocator.
const OVERHEAD: usize = 64;
/// Cost of what waits for one reader, at most.
const MAX_COST: usize = 256 * 1024;
/// Datagrams that wait for one reader, at most.
const MAX_COUNT: usize = 1024;
