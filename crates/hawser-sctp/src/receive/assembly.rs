use std::collections::{BTreeMap, VecDeque};

use hawser_types::PathId;
use hawser_wire::sctp::{Data, DataOrder, ForwardTsn, SkippedStream, StreamNumber};

use super::fragments::{Dropped, FragmentKey, Fragments, Part};
use super::message::{Carrier, End, MessageHeader, PART_OVERHEAD, Received, charge};
use crate::error::Misbehaviour;

/// Assembles messages from parts, and puts those of each stream in order.
#[derive(Debug)]
pub(super) struct Assembly {
    interleaving: bool,
    fragments: Fragments,
    /// Streams by number, up to the highest used.
    streams: Vec<Stream>,
    /// The stream of messages that the peer places, and those that have come.
    placed_stream: Option<StreamNumber>,
    placed: VecDeque<Received>,
    /// Messages that the reader may take.
    ready: VecDeque<Received>,
    /// Their buffer charge.
    readable: usize,
    /// Buffer charge of messages that are incomplete or out of order.
    unfinished: usize,
    /// Unfinished charge above which a message is delivered in part: otherwise not even the missing
    /// parts might have room.
    crowded: usize,
}

/// Ordered delivery of a stream.
#[derive(Debug, Default)]
struct Stream {
    /// Number of messages delivered or abandoned; it does not wrap.
    passed: u64,
    /// Messages that have overtaken others.
    waiting: BTreeMap<u64, Received>,
}

impl Assembly {
    pub(super) fn new(
        capacity: usize,
        interleaving: bool,
        placed_stream: Option<StreamNumber>,
    ) -> Self {
        Self {
            interleaving,
            placed_stream,
            placed: VecDeque::new(),
            fragments: Fragments::default(),
            streams: Vec::new(),
            ready: VecDeque::new(),
            readable: 0,
            unfinished: 0,
            crowded: capacity / 4 * 3,
        }
    }

    /// Returns the total buffer charge.
    pub(super) fn held(&self) -> usize {
        // The beginnings delivered count too, since a peer could begin messages without end.
        self.unfinished + self.readable + self.fragments.begun() * PART_OVERHEAD
    }

    pub(super) fn is_readable(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Tells whether this is a whole message that the peer has placed.
    pub(super) fn is_placed(&self, data: &Data) -> bool {
        let is_whole = data.first && data.last && data.unordered;
        is_whole && Some(data.stream) == self.placed_stream
    }

    pub(super) fn has_placed(&self) -> bool {
        !self.placed.is_empty()
    }

    pub(super) fn receive_placed(&mut self) -> Option<Received> {
        let received = self.placed.pop_front()?;
        self.readable -= received.charge();
        Some(received)
    }

    pub(super) fn receive(&mut self) -> Option<Received> {
        let received = self.ready.pop_front()?;
        self.readable -= received.charge();
        Some(received)
    }

    /// Adds a part that is not a duplicate; `position` is its TSN as a number that does not wrap.
    pub(super) fn insert(
        &mut self,
        position: u64,
        data: Data,
        path: Option<PathId>,
    ) -> Result<(), Misbehaviour> {
        let carrier = Carrier {
            path,
            number: position,
        };
        let head = head(&data, carrier);
        self.unfinished += charge(&data.payload);
        if data.first && data.last {
            let mut received = Received::of(head);
            received.push(data.payload);
            return self.sort(head, received);
        }
        let key = fragment_key(position, &data)?;
        let width = self.width();
        // The next message of its stream is delivered in part where memory becomes scarce.
        let early = self.unfinished > self.crowded
            && (head.unordered || self.stream(head.stream.value()).ahead(head.number, width) == 0);
        let part = Part {
            head,
            first: data.first,
            last: data.last,
            payload: data.payload,
        };
        match self.fragments.insert(key, part, early)? {
            Some(mut received) => {
                received.carrier = carrier;
                self.sort(head, received)
            }
            None => Ok(()),
        }
    }

    /// Drops messages that the peer has abandoned; `through` is the position of the new cumulative
    /// TSN.
    pub(super) fn forward(&mut self, through: u64, forward: &ForwardTsn, streams: u16) {
        let existing = |skipped: &&SkippedStream| skipped.stream.value() < streams;
        let mut dropped = Dropped::default();
        if self.interleaving {
            for skipped in forward.skipped.iter().filter(existing) {
                self.drop_messages(skipped, &mut dropped);
            }
        } else {
            dropped = self.fragments.drop_incomplete(0, through);
        }
        self.unfinished -= dropped.charge;
        for head in dropped.begun {
            self.make_readable(Received::given_up(head));
        }
        for skipped in forward.skipped.iter().filter(existing) {
            if !skipped.unordered {
                let (number, width) = (skipped.stream.value(), self.width());
                self.stream(number).skip(skipped.last, width);
                self.deliver(number);
            }
        }
    }

    /// Drops parts of messages up to this one: by serial arithmetic, the preceding half of all
    /// numbers.
    fn drop_messages(&mut self, skipped: &SkippedStream, dropped: &mut Dropped) {
        let lane = lane(skipped.stream.value(), skipped.unordered);
        let last = skipped.last;
        let first = last.wrapping_sub(u32::MAX / 2);
        let through = |message: u32| u64::from(message) << 32 | u64::from(u32::MAX);
        let from = |message: u32| u64::from(message) << 32;
        if first <= last {
            self.fragments
                .drop_all(lane, from(first), through(last), dropped);
        } else {
            self.fragments
                .drop_all(lane, from(first), u64::MAX, dropped);
            self.fragments.drop_all(lane, 0, through(last), dropped);
        }
    }

    /// Delivers a message, or keeps it until it is in order.
    fn sort(&mut self, head: MessageHeader, received: Received) -> Result<(), Misbehaviour> {
        if head.unordered {
            self.make_readable(received);
            return Ok(());
        }
        let (number, width) = (head.stream.value(), self.width());
        let stream = self.stream(number);
        let ahead = stream.ahead(head.number, width);
        if ahead > 0 {
            let turn = stream.passed + ahead;
            return match stream.waiting.insert(turn, received) {
                Some(_) => Err(Misbehaviour::BrokenMessage),
                None => Ok(()),
            };
        }
        stream.passed += u64::from(received.end != End::More);
        self.make_readable(received);
        self.deliver(number);
        Ok(())
    }

    /// Delivers messages of the stream that are in order now.
    fn deliver(&mut self, number: u16) {
        while let Some(received) = self.stream(number).take_next() {
            self.make_readable(received);
        }
    }

    fn make_readable(&mut self, received: Received) {
        self.unfinished -= received.charge();
        self.readable += received.charge();
        if Some(received.stream) == self.placed_stream {
            self.placed.push_back(received);
        } else {
            self.ready.push_back(received);
        }
    }

    /// Returns the number of bits of message numbers.
    fn width(&self) -> u32 {
        if self.interleaving { 32 } else { 16 }
    }

    fn stream(&mut self, number: u16) -> &mut Stream {
        let index = usize::from(number);
        if self.streams.len() <= index {
            self.streams.resize_with(index + 1, Stream::default);
        }
        &mut self.streams[index]
    }
}

impl Stream {
    /// Returns the next message, if present, or a waiting one that a skip has passed.
    fn take_next(&mut self) -> Option<Received> {
        let entry = self.waiting.first_entry()?;
        let turn = *entry.key();
        if turn > self.passed {
            return None;
        }
        self.passed = self.passed.max(turn + 1);
        Some(entry.remove())
    }

    /// Returns how many messages the one with this number is ahead of the next one.
    fn ahead(&self, number: u32, width: u32) -> u64 {
        (u64::from(number).wrapping_sub(self.passed)) & (u64::MAX >> (64 - width))
    }

    /// Counts messages up to this one as delivered.
    fn skip(&mut self, last: u32, width: u32) {
        let ahead = self.ahead(last, width);
        // A number already passed looks far ahead, since numbers wrap.
        if ahead < 1 << (width - 1) {
            self.passed += ahead + 1;
        }
    }
}

fn head(data: &Data, carrier: Carrier) -> MessageHeader {
    MessageHeader {
        stream: data.stream,
        unordered: data.unordered,
        number: match data.order {
            DataOrder::Interleaved { message, .. } => message,
            // Unordered DATA messages have no numbers.
            DataOrder::Sequence(_) if data.unordered => data.tsn.value(),
            DataOrder::Sequence(number) => number.into(),
        },
        protocol: data.protocol,
        carrier,
    }
}

fn fragment_key(position: u64, data: &Data) -> Result<FragmentKey, Misbehaviour> {
    match data.order {
        DataOrder::Sequence(_) => Ok(FragmentKey { lane: 0, position }),
        DataOrder::Interleaved { fragment: 0, .. } if !data.first => {
            Err(Misbehaviour::BrokenMessage)
        }
        DataOrder::Interleaved { message, fragment } => Ok(FragmentKey {
            lane: lane(data.stream.value(), data.unordered),
            position: u64::from(message) << 32 | u64::from(fragment),
        }),
    }
}

/// Returns the lane of a stream: ordered and unordered messages have separate numbers.
fn lane(stream: u16, unordered: bool) -> u32 {
    u32::from(stream) << 1 | u32::from(unordered)
}
