//! Where messages come from and go to, by the numbers of flows.

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

/// An address that datagrams go to.
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
    /// Until when it may say nothing.
    ends: Instant,
    /// What may be answered over it, once something was asked over it.
    answers: Option<Allowance>,
    /// Messages over it that came too often.
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

    /// The flow of datagrams from and to an address; `None` while there are too many.
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

    /// Whether an answer from there may be taken; `None` where nothing was sent to.
    pub(super) fn admit_answer(&mut self, now: Instant, from: Source) -> Option<bool> {
        let answers = match from {
            Source::Datagrams(from) => &mut self.datagrams.get_mut(&from)?.answers,
            Source::Stream(flow, _) => self.stream(flow)?.answers.as_mut()?,
        };
        Some(answers.take(now, MAX_ANSWERS, ANSWER_PAUSE))
    }

    /// A request goes over this flow, so answers are to come.
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

    /// A stream with `remote`; `None` where there are as many as are allowed, or one sender has
    /// more than its share.
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

    /// A stream that leads to an address already.
    pub(super) fn stream_to(&self, transport: &Transport, remote: SocketAddr) -> Option<Flow> {
        let mut streams = self.streams.iter();
        let found = streams.find(|(_, it)| it.remote == remote && it.transport == *transport);
        found.map(|(number, _)| Flow {
            number: *number,
            is_reliable: true,
        })
    }

    /// A whole message, or a sign of life, has come over a stream.
    pub(super) fn heard(&mut self, now: Instant, flow: Flow) {
        if let Some(stream) = self.stream(flow) {
            stream.ends = now + PATIENCE;
        }
    }

    /// Notes that a message came too often; whether that is enough to close the stream.
    pub(super) fn is_refused_for_good(&mut self, flow: Flow) -> bool {
        self.stream(flow).is_some_and(|stream| {
            stream.refused += 1;
            stream.refused >= MAX_REFUSED
        })
    }

    pub(super) fn close(&mut self, flow: Flow) -> bool {
        self.streams.remove(&flow.number).is_some()
    }

    /// When a stream has said nothing for too long, and which.
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

/// Addresses whose datagrams are in some transaction.
const MAX_DATAGRAMS: usize = 65_536;
/// Longer than any transaction lasts.
const DATAGRAMS_USED: Duration = Duration::from_secs(256);
/// Answers of one address at once, and the time for one more: some for each request that it gets.
const MAX_ANSWERS: u32 = 1000;
const ANSWER_PAUSE: Duration = Duration::from_millis(4);
const SWEEP: Duration = Duration::from_secs(5);
/// One sender may have this part of all streams.
const MOST_PART: usize = 8;
/// Messages of one stream that come too often before it is closed: reading them is work as well.
const MAX_REFUSED: u32 = 200;
/// For the first message of a stream.
const FIRST_PATIENCE: Duration = Duration::from_secs(15);
/// Until the next message or ping (RFC 5626 §4.4.1 has a ping every two minutes).
const PATIENCE: Duration = Duration::from_secs(600);
