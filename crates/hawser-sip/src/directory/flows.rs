//! Sources and destinations of messages, by flow number.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use hawser_types::Instant;

use super::source::{Datagrams, Source};
use crate::fields::Transport;
use crate::framer::Framer;
use crate::message::Limits;
use crate::registrar::{Allowance, sender};
use crate::transaction::Flow;

/// All flows of a directory.
#[derive(Debug)]
pub(super) struct Flows {
    next: u64,
    datagrams: BTreeMap<Datagrams, Used>,
    by_number: BTreeMap<u64, Datagrams>,
    swept: Instant,
    streams: BTreeMap<u64, Stream>,
    max_streams: usize,
}

/// A remote address for datagrams.
#[derive(Debug)]
struct Used {
    flow: Flow,
    at: Instant,
    answers: Allowance,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) framer: Framer,
    pub(super) transport: Transport,
    pub(super) remote: SocketAddr,
    /// Time until which it may stay silent.
    ends: Instant,
    /// Allowance of responses over it, once a request was sent over it.
    answers: Option<Allowance>,
    /// Messages that exceeded the limit.
    refused: u32,
}

impl Flows {
    pub(super) fn new(max_streams: usize) -> Self {
        Self {
            next: 0,
            datagrams: BTreeMap::new(),
            by_number: BTreeMap::new(),
            swept: Instant::ZERO,
            streams: BTreeMap::new(),
            max_streams,
        }
    }

    fn new_flow(&mut self, is_reliable: bool) -> Flow {
        self.next += 1;
        Flow {
            number: self.next,
            is_reliable,
        }
    }

    /// Returns the flow of datagrams with an address; `None` while there are too many.
    pub(super) fn datagrams(&mut self, now: Instant, to: Datagrams) -> Option<Flow> {
        if let Some(used) = self.datagrams.get_mut(&to) {
            used.at = now;
            return Some(used.flow);
        }
        if self.datagrams.len() >= MAX_DATAGRAMS && now.since(self.swept) >= SWEEP {
            self.swept = now;
            self.datagrams
                .retain(|_, used| now.since(used.at) < DATAGRAMS_USED);
            let datagrams = &self.datagrams;
            self.by_number.retain(|_, to| datagrams.contains_key(to));
        }
        if self.datagrams.len() >= MAX_DATAGRAMS {
            return None;
        }
        let flow = self.new_flow(false);
        let used = Used {
            flow,
            at: now,
            answers: Allowance::default(),
        };
        self.datagrams.insert(to, used);
        self.by_number.insert(flow.number, to);
        Some(flow)
    }

    /// Whether a response from `from` is within its limit; `None` if no request was sent there.
    pub(super) fn admit_answer(&mut self, now: Instant, from: Source) -> Option<bool> {
        let answers = match from {
            Source::Datagrams(from) => &mut self.datagrams.get_mut(&from)?.answers,
            Source::Stream(flow, _) => self.stream(flow)?.answers.as_mut()?,
        };
        Some(answers.take(now, MAX_ANSWERS, ANSWER_PAUSE))
    }

    /// Records that a request is sent over this flow, so that responses are expected.
    pub(super) fn expect_answers(&mut self, flow: Flow) {
        if flow.is_reliable
            && let Some(stream) = self.stream(flow)
        {
            stream.answers.get_or_insert_default();
        }
    }

    pub(super) fn datagrams_of(&self, flow: Flow) -> Option<Datagrams> {
        self.by_number.get(&flow.number).copied()
    }

    /// Opens a stream with `remote`; `None` if the limit of all streams or of one sender's share is
    /// reached.
    pub(super) fn open(
        &mut self,
        now: Instant,
        (transport, remote): (Transport, SocketAddr),
        limits: Limits,
    ) -> Option<Flow> {
        let own = self
            .streams
            .values()
            .filter(|it| sender(it.remote.ip()) == sender(remote.ip()))
            .count();
        if self.streams.len() >= self.max_streams || own >= self.max_streams.div_ceil(MOST_PART) {
            return None;
        }
        let flow = self.new_flow(true);
        let stream = Stream {
            framer: Framer::new(limits),
            transport,
            remote,
            ends: now + FIRST_PATIENCE,
            answers: None,
            refused: 0,
        };
        self.streams.insert(flow.number, stream);
        Some(flow)
    }

    pub(super) fn stream(&mut self, flow: Flow) -> Option<&mut Stream> {
        self.streams.get_mut(&flow.number)
    }

    pub(super) fn is_open(&self, flow: Flow) -> bool {
        self.streams.contains_key(&flow.number)
    }

    /// Returns an open stream to an address.
    pub(super) fn stream_to(&self, transport: &Transport, remote: SocketAddr) -> Option<Flow> {
        let mut streams = self.streams.iter();
        let found = streams.find(|(_, it)| it.remote == remote && it.transport == *transport);
        found.map(|(number, _)| Flow {
            number: *number,
            is_reliable: true,
        })
    }

    /// Records a complete message or a keep-alive on a stream.
    pub(super) fn heard(&mut self, now: Instant, flow: Flow) {
        if let Some(stream) = self.stream(flow) {
            stream.ends = now + PATIENCE;
        }
    }

    /// Counts a message over the limit. Returns whether the stream must be closed.
    pub(super) fn is_refused_for_good(&mut self, flow: Flow) -> bool {
        self.stream(flow).is_some_and(|stream| {
            stream.refused += 1;
            stream.refused >= MAX_REFUSED
        })
    }

    pub(super) fn close(&mut self, flow: Flow) -> bool {
        self.streams.remove(&flow.number).is_some()
    }

    /// Returns the stream that times out first, and when.
    pub(super) fn first_silent(&self) -> Option<(Instant, Flow)> {
        let streams = self.streams.iter();
        let first = streams.min_by_key(|(_, stream)| stream.ends)?;
        let (number, stream) = first;
        let flow = Flow {
            number: *number,
            is_reliable: true,
        };
        Some((stream.ends, flow))
    }

    #[cfg(test)]
    pub(super) fn datagram_count(&self) -> usize {
        self.datagrams.len()
    }

    pub(super) fn stream_count(&self) -> usize {
        self.streams.len()
    }
}

/// Limit of remote datagram addresses in transactions.
const MAX_DATAGRAMS: usize = 65_536;
/// Longer than any transaction.
const DATAGRAMS_USED: Duration = Duration::from_secs(256);
/// Responses of one address at once, and the time for one more: several for each request to it.
const MAX_ANSWERS: u32 = 1000;
const ANSWER_PAUSE: Duration = Duration::from_millis(4);
const SWEEP: Duration = Duration::from_secs(5);
/// Divisor: one sender may have this fraction of all streams.
const MOST_PART: usize = 8;
/// Messages over the limit before a stream is closed: reading them costs time as well.
const MAX_REFUSED: u32 = 200;
/// Time for the first message of a stream.
const FIRST_PATIENCE: Duration = Duration::from_secs(15);
/// Time until the next message or ping (RFC 5626 §4.4.1: a ping every two minutes).
const PATIENCE: Duration = Duration::from_secs(600);
