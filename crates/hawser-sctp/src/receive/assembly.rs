use std::collections::{BTreeMap, VecDeque};

use hawser_wire::sctp::{Data, DataOrder, ForwardTsn, SkippedStream};

use super::fragments::{Dropped, Fragments, Head, Part, Place};
use super::{End, PART_OVERHEAD, Received, charge};
use crate::error::Misbehaviour;

/// Makes messages out of parts, and puts those of each stream in order.
#[derive(Debug)]
pub(super) struct Assembly {
    interleaving: bool,
    fragments: Fragments,
    /// By the streams' numbers, as far as they have been used.
    streams: Vec<Stream>,
    /// What the reader may take, and what that is charged with.
    ready: VecDeque<Received>,
    readable: usize,
    /// What waits for its end or its turn is charged with.
    unfinished: usize,
    /// With so much unfinished, the beginning of a message is delivered without its end: else nothing
    /// more might have room, not even the ends.
    crowded: usize,
}

/// The ordered messages of a stream.
#[derive(Debug, Default)]
struct Stream {
    /// How many have been delivered or given up; the number of the next one does not wrap around here.
    passed: u64,
    /// Those that have overtaken others.
    waiting: BTreeMap<u64, Received>,
}

impl Assembly {
    pub(super) fn new(capacity: usize, interleaving: bool) -> Self {
        Self {
            interleaving,
            fragments: Fragments::default(),
            streams: Vec::new(),
            ready: VecDeque::new(),
            readable: 0,
            unfinished: 0,
            crowded: capacity / 4 * 3,
        }
    }

    /// What all that is kept is charged with.
    pub(super) fn held(&self) -> usize {
        // A peer could begin messages for ever, and each beginning is remembered when it was read.
        self.unfinished + self.readable + self.fragments.begun() * PART_OVERHEAD
    }

    pub(super) fn is_readable(&self) -> bool {
        !self.ready.is_empty()
    }

    pub(super) fn receive(&mut self) -> Option<Received> {
        let received = self.ready.pop_front()?;
        self.readable -= received.charge;
        Some(received)
    }

    /// Takes a part that has not come before; `position` is its TSN as a number that does not wrap.
    pub(super) fn insert(&mut self, position: u64, data: Data) -> Result<(), Misbehaviour> {
        let head = head(&data);
        self.unfinished += charge(&data.payload);
        if data.first && data.last {
            let mut received = Received::of(head);
            received.push(data.payload);
            return self.sort(head, received);
        }
        let place = place(position, &data)?;
        let early = self.unfinished > self.crowded && self.is_next(head);
        let part = Part {
            head,
            first: data.first,
            last: data.last,
            payload: data.payload,
        };
        match self.fragments.insert(place, part, early)? {
            Some(received) => self.sort(head, received),
            None => Ok(()),
        }
    }

    /// The peer has given up messages; `through` is the position of the last TSN that counts as
    /// arrived now.
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

    /// Drops parts of messages up to this one; numbers half of all of them behind it are before it.
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

    /// Delivers a message, or keeps it for its turn.
    fn sort(&mut self, head: Head, received: Received) -> Result<(), Misbehaviour> {
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

    /// Delivers what has waited for its turn in the stream.
    fn deliver(&mut self, number: u16) {
        while let Some(received) = self.stream(number).take_next() {
            self.make_readable(received);
        }
    }

    fn make_readable(&mut self, received: Received) {
        self.unfinished -= received.charge;
        self.readable += received.charge;
        self.ready.push_back(received);
    }

    /// Whether the message is the one that its reader waits for.
    fn is_next(&mut self, head: Head) -> bool {
        let width = self.width();
        head.unordered || self.stream(head.stream.value()).ahead(head.number, width) == 0
    }

    /// Bits of the messages' numbers.
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
    /// Takes the next message, if it is there; or one before it that was waiting when they were
    /// skipped.
    fn take_next(&mut self) -> Option<Received> {
        let entry = self.waiting.first_entry()?;
        let turn = *entry.key();
        if turn > self.passed {
            return None;
        }
        self.passed = self.passed.max(turn + 1);
        Some(entry.remove())
    }

    /// How many messages the one with this number has overtaken.
    fn ahead(&self, number: u32, width: u32) -> u64 {
        (u64::from(number).wrapping_sub(self.passed)) & (u64::MAX >> (64 - width))
    }

    /// Takes messages up to this one as delivered, if they are not.
    fn skip(&mut self, last: u32, width: u32) {
        let ahead = self.ahead(last, width);
        // What has been passed looks far ahead, since numbers wrap around.
        if ahead < 1 << (width - 1) {
            self.passed += ahead + 1;
        }
    }
}

fn head(data: &Data) -> Head {
    Head {
        stream: data.stream,
        unordered: data.unordered,
        number: match data.order {
            DataOrder::Interleaved { message, .. } => message,
            // Nothing counts these.
            DataOrder::Sequence(_) if data.unordered => data.tsn.value(),
            DataOrder::Sequence(number) => number.into(),
        },
        protocol: data.protocol,
    }
}

fn place(position: u64, data: &Data) -> Result<Place, Misbehaviour> {
    match data.order {
        DataOrder::Sequence(_) => Ok(Place { lane: 0, position }),
        DataOrder::Interleaved { fragment: 0, .. } if !data.first => {
            Err(Misbehaviour::BrokenMessage)
        }
        DataOrder::Interleaved { message, fragment } => Ok(Place {
            lane: lane(data.stream.value(), data.unordered),
            position: u64::from(message) << 32 | u64::from(fragment),
        }),
    }
}

/// Ordered and unordered messages of a stream are counted apart.
fn lane(stream: u16, unordered: bool) -> u32 {
    u32::from(stream) << 1 | u32::from(unordered)
}
