//! The messages of the idle stream: when each is written, and how long it took.

use std::collections::VecDeque;
use std::time::Duration;

use hawser_types::Instant;

/// What is asked of both.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Streams from the client that always have something to send.
    pub busy: u16,
    /// How long messages are sent.
    pub span: Duration,
}

/// Messages and payload of one run.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// When messages were written that have not arrived.
    in_flight: VecDeque<Instant>,
    /// Bytes of messages that have come.
    arrived: u64,
    delays: Vec<Duration>,
    /// Payload of the busy streams.
    bulk: u64,
}

impl Ledger {
    /// A message was to be sent.
    pub(super) fn on_written(&mut self, now: Instant) {
        self.in_flight.push_back(now);
    }

    /// So many bytes of messages have come, in order.
    pub(super) fn on_read(&mut self, now: Instant, bytes: u64) {
        let before = self.arrived / MESSAGE.len() as u64;
        self.arrived += bytes;
        for _ in before..self.arrived / MESSAGE.len() as u64 {
            if let Some(left) = self.in_flight.pop_front() {
                self.delays.push(now.since(left));
            }
        }
    }

    /// So many bytes of the busy streams have come while they counted.
    pub(super) fn on_bulk(&mut self, bytes: u64) {
        self.bulk += bytes;
    }

    /// Payload of the busy streams.
    pub(super) fn bulk(&self) -> u64 {
        self.bulk
    }

    /// True if every message has arrived.
    pub(super) fn is_settled(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// How long each message took; `None` for those that never arrived.
    pub(super) fn into_delays(self) -> impl Iterator<Item = Option<Duration>> {
        let lost = self.in_flight.into_iter().map(|_| None);
        self.delays.into_iter().map(Some).chain(lost)
    }
}

/// When the message with this number is written, after the busy streams have begun: ten in a
/// second, not in step with any timer.
pub(super) fn written_at(number: u32) -> Duration {
    WARM_UP + EVERY * number + Duration::from_micros(u64::from(number) * 7919 % 30_000)
}

pub(super) static MESSAGE: [u8; 1000] = [0xa5; 1000];
pub(super) const EVERY: Duration = Duration::from_millis(100);
/// Messages do not count before the busy streams have filled the links.
pub(super) const WARM_UP: Duration = Duration::from_secs(2);
/// How long what is in flight at the end is waited for.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
