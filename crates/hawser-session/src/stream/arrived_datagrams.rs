use std::collections::VecDeque;

use bytes::Bytes;

/// Datagrams of one stream that came and were not taken.
#[derive(Debug, Default)]
pub(crate) struct ArrivedDatagrams {
    list: VecDeque<Bytes>,
    bytes: usize,
}

/// Outcome of taking a datagram in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    is_kept: bool,
    freed: usize,
    dropped: u64,
}

impl ArrivedDatagrams {
    /// Takes a datagram in, if the session has `room` for it. The oldest make room where the
    /// stream has too many.
    pub(crate) fn push(&mut self, payload: &[u8], room: usize) -> Taken {
        let mut taken = Taken::default();
        while self.bytes + payload.len() > MAX_BYTES || self.list.len() >= MAX_COUNT {
            let Some(oldest) = self.list.pop_front() else {
                break;
            };
            self.bytes -= oldest.len();
            taken.freed += oldest.len();
            taken.dropped += 1;
        }
        if payload.len() > room + taken.freed {
            taken.dropped += 1;
            return taken;
        }
        // As a slice it would keep the whole buffer that it came in alive.
        self.list.push_back(Bytes::copy_from_slice(payload));
        self.bytes += payload.len();
        taken.is_kept = true;
        taken
    }

    /// Takes out the oldest datagram.
    pub(crate) fn pop(&mut self) -> Option<Bytes> {
        let payload = self.list.pop_front()?;
        self.bytes -= payload.len();
        Some(payload)
    }

    /// Returns the bytes that were not taken.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Taken {
    /// True if the datagram is there to be taken.
    pub(crate) fn is_kept(self) -> bool {
        self.is_kept
    }

    /// Returns the bytes of older datagrams that were dropped.
    pub(crate) fn freed(self) -> usize {
        self.freed
    }

    /// Returns how many datagrams were dropped, this one included.
    pub(crate) fn dropped(self) -> u64 {
        self.dropped
    }
}

/// Bytes that wait for one reader, at most.
const MAX_BYTES: usize = 256 * 1024;
/// Datagrams that wait for one reader, at most.
const MAX_COUNT: usize = 1024;
