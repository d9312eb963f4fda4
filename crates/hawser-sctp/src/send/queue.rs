use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use hawser_types::StreamId;
use hawser_wire::sctp::{Data, DataOrder, Framing, StreamNumber, Tsn};

use super::message::{Message, MessageId, OVERHEAD};

/// Waiting messages of each stream. Streams take turns: with I-DATA for each chunk, else for each
/// message, whose parts need consecutive TSNs. The next turn belongs to the stream that has sent
/// the fewest bytes; an idle stream starts at the count of the last turn. So a message on a rarely
/// used stream does not wait, and a busy stream gets its share and no more.
///
/// A message is fragmented only when a packet has room, so that each part fits its path. Source:
/// the late binding of a chunk to its path, and RFC 8260 §2.2; P. Goyal and others, *Start-time
/// Fair Queueing*, SIGCOMM 1996.
#[derive(Debug)]
pub(super) struct Queue {
    streams: BTreeMap<StreamNumber, Stream>,
    /// Turns of the streams with messages, the next one first.
    turns: Turns,
    /// Bytes sent by the stream that had the last turn.
    sent: u64,
    /// The stream that has to finish its message first.
    held_by: Option<StreamNumber>,
    interleaving: bool,
    framing: Framing,
    bytes: u64,
    messages: u64,
}

#[derive(Debug, Default)]
struct Stream {
    waiting: VecDeque<Waiting>,
    /// Numbers of the next ordered and the next unordered message.
    ordered: u32,
    unordered: u32,
    /// Its next turn.
    turn: Turn,
}

/// A stream's place in the order of turns: the least is next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    /// Bytes that it has sent or is credited with.
    sent: u64,
    /// Among equals, streams that were idle come first.
    was_busy: bool,
    stream: StreamNumber,
}

/// The turns of all streams with messages. The first stands apart: with a single sending stream,
/// nothing is sorted.
#[derive(Debug, Default)]
struct Turns {
    first: Option<Turn>,
    others: BTreeSet<Turn>,
}

impl Turns {
    fn insert(&mut self, turn: Turn) {
        match self.first {
            Some(first) if first <= turn => _ = self.others.insert(turn),
            before => {
                self.first = Some(turn);
                self.others.extend(before);
            }
        }
    }

    fn remove(&mut self, turn: &Turn) {
        if self.first.as_ref() == Some(turn) {
            self.first = self.others.pop_first();
        } else {
            self.others.remove(turn);
        }
    }
}

/// A message, or the rest of it.
#[derive(Debug)]
struct Waiting {
    rest: Bytes,
    protocol: u32,
    unordered: bool,
    duplicate: bool,
    owner_stream: Option<StreamId>,
    id: Option<MessageId>,
    /// Number of the message, once its first part was cut.
    number: Option<u32>,
    parts: u32,
}

/// The message that is fragmented next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Next {
    /// Bytes left of it.
    pub(super) rest: usize,
    /// Size of the header of its next part in a packet of its own.
    pub(super) header: usize,
    /// The owner's stream that it belongs to.
    pub(super) owner_stream: Option<StreamId>,
    order: DataOrder,
}

impl Next {
    /// Returns the longest part that fits into `room` bytes of a packet.
    pub(super) fn payload_within(&self, framing: Framing, room: usize) -> usize {
        framing.payload_within(room, self.header, &self.order)
    }
}

/// A part of a message, ready to be sent, without its TSN.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) data: Data,
    pub(super) message: Option<MessageId>,
    /// A redundant copy is wanted.
    pub(super) duplicate: bool,
    pub(super) owner_stream: Option<StreamId>,
}

impl Queue {
    pub(super) fn new(interleaving: bool, framing: Framing) -> Self {
        Self {
            streams: BTreeMap::new(),
            turns: Turns::default(),
            sent: 0,
            held_by: None,
            interleaving,
            framing,
            bytes: 0,
            messages: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.turns.first.is_none()
    }

    /// Tells whether messages are sent as I-DATA.
    pub(super) fn is_interleaving(&self) -> bool {
        self.interleaving
    }

    /// Returns the waiting payload.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Tells whether nothing of this stream waits.
    pub(super) fn is_quiet(&self, stream: StreamNumber) -> bool {
        let stream = self.streams.get(&stream);
        stream.is_none_or(|stream| stream.waiting.is_empty())
    }

    /// Returns the memory taken by waiting messages.
    pub(super) fn held(&self) -> u64 {
        self.bytes + self.messages * OVERHEAD
    }

    pub(super) fn push(&mut self, number: StreamNumber, message: Message, id: Option<MessageId>) {
        self.bytes += message.payload.len() as u64;
        self.messages += 1;
        let stream = self.streams.entry(number).or_default();
        if stream.waiting.is_empty() {
            stream.turn = Turn {
                sent: stream.turn.sent.max(self.sent),
                was_busy: false,
                stream: number,
            };
            self.turns.insert(stream.turn);
        }
        stream.waiting.push_back(Waiting {
            rest: message.payload,
            protocol: message.protocol,
            unordered: message.unordered,
            duplicate: message.twice,
            owner_stream: message.owner_stream,
            id,
            number: None,
            parts: 0,
        });
    }

    /// Returns the message that is fragmented next.
    pub(super) fn next(&self) -> Option<Next> {
        let number = self.next_stream()?;
        let stream = self.streams.get(&number)?;
        let message = stream.waiting.front()?;
        let in_stream = message.number.unwrap_or(if message.unordered {
            stream.unordered
        } else {
            stream.ordered
        });
        let order = order_of(self.interleaving, in_stream, message.parts);
        let protocol = message.number.is_none().then_some(message.protocol);
        Some(Next {
            rest: message.rest.len(),
            owner_stream: message.owner_stream,
            header: self.framing.data_header(number, &order, protocol),
            order,
        })
    }

    /// Cuts the next part, of at most `limit` bytes, which is at least 1.
    pub(super) fn cut(&mut self, limit: usize) -> Option<Part> {
        let number = self.next_stream()?;
        let stream = self.streams.get_mut(&number)?;
        let message = stream.waiting.front_mut()?;
        let first = message.number.is_none();
        let next = if message.unordered {
            &mut stream.unordered
        } else {
            &mut stream.ordered
        };
        let in_stream = *message.number.get_or_insert_with(|| {
            let own = *next;
            *next = next.wrapping_add(1);
            own
        });
        let payload = message.rest.split_to(limit.min(message.rest.len()));
        let last = message.rest.is_empty();
        let data = Data {
            tsn: Tsn::default(),
            stream: number,
            order: order_of(self.interleaving, in_stream, message.parts),
            unordered: message.unordered,
            first,
            last,
            immediate: false,
            protocol: if first || !self.interleaving {
                message.protocol
            } else {
                0
            },
            payload,
        };
        message.parts += 1;
        let (id, duplicate) = (message.id, message.duplicate);
        let owner_stream = message.owner_stream;
        self.bytes -= data.payload.len() as u64;
        if last {
            stream.waiting.pop_front();
            self.messages -= 1;
        }
        self.end_turn(number, data.payload.len() as u64, last);
        Some(Part {
            data,
            message: id,
            duplicate,
            owner_stream,
        })
    }

    /// Drops the waiting rest of a message. If parts of it were sent, returns an empty end: a TSN
    /// without payload that is never sent but abandoned at once. It tells the peer that the message
    /// ends there, even if all that was sent has arrived.
    pub(super) fn drop_message(&mut self, number: StreamNumber, id: MessageId) -> Option<Data> {
        let stream = self.streams.get_mut(&number)?;
        let index = stream
            .waiting
            .iter()
            .position(|message| message.id == Some(id))?;
        let message = stream.waiting.remove(index)?;
        if stream.waiting.is_empty() {
            self.turns.remove(&stream.turn);
        }
        if message.number.is_some() {
            self.held_by = self.held_by.filter(|holder| *holder != number);
        }
        self.bytes -= message.rest.len() as u64;
        self.messages -= 1;
        let in_stream = message.number?;
        Some(Data {
            tsn: Tsn::default(),
            stream: number,
            order: order_of(self.interleaving, in_stream, message.parts),
            unordered: message.unordered,
            first: false,
            last: true,
            immediate: false,
            protocol: 0,
            payload: Bytes::new(),
        })
    }

    fn next_stream(&self) -> Option<StreamNumber> {
        let first = || self.turns.first.map(|turn| turn.stream);
        self.held_by.or_else(first)
    }

    /// Ends the turn of a stream that has sent a part of a message.
    fn end_turn(&mut self, number: StreamNumber, sent: u64, message_ends: bool) {
        let Some(stream) = self.streams.get_mut(&number) else {
            return;
        };
        self.turns.remove(&stream.turn);
        self.sent = self.sent.max(stream.turn.sent);
        stream.turn.sent += sent;
        stream.turn.was_busy = true;
        if !stream.waiting.is_empty() {
            self.turns.insert(stream.turn);
        }
        self.held_by = (!self.interleaving && !message_ends).then_some(number);
    }
}

fn order_of(interleaving: bool, message: u32, fragment: u32) -> DataOrder {
    if interleaving {
        DataOrder::Interleaved { message, fragment }
    } else {
        // Stream sequence numbers wrap; receivers ignore those of unordered messages.
        DataOrder::Sequence(message as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(interleaving: bool, busy: u16) -> Queue {
        let mut queue = Queue::new(interleaving, Framing::Whole);
        for number in 0..busy {
            push(&mut queue, number, 100_000);
        }
        queue
    }

    fn push(queue: &mut Queue, number: u16, length: usize) {
        let message = Message::new(Bytes::from(vec![0; length]));
        queue.push(StreamNumber::new(number), message, None);
    }

    fn cut(queue: &mut Queue, limit: usize) -> (u16, usize) {
        let data = queue.cut(limit).unwrap().data;
        (data.stream.value(), data.payload.len())
    }

    #[test]
    fn a_message_of_an_idle_stream_goes_ahead_of_all_that_are_busy() {
        let mut queue = queue(true, 99);
        (0..250).for_each(|_| _ = cut(&mut queue, 1000));
        for _ in 0..5 {
            push(&mut queue, 200, 300);
            assert_eq!(cut(&mut queue, 1000), (200, 300));
            // Meanwhile each of the others sends more than that.
            (0..99).for_each(|_| assert_ne!(cut(&mut queue, 1000).0, 200));
        }
    }

    #[test]
    fn a_stream_that_is_seldom_empty_gets_no_more_than_its_share() {
        let mut queue = queue(true, 3);
        let mut own = 0;
        for _ in 0..120 {
            if queue
                .streams
                .get(&StreamNumber::new(9))
                .is_none_or(|it| it.waiting.is_empty())
            {
                push(&mut queue, 9, 500);
            }
            let (stream, length) = cut(&mut queue, 1000);
            own += if stream == 9 { length } else { 0 };
        }
        // A quarter of the data, in chunks of half the others' size.
        assert!((20_000..=30_000).contains(&own), "{own}");
    }

    #[test]
    fn without_interleaving_a_message_ends_before_another_stream_has_its_turn() {
        let mut queue = queue(false, 1);
        cut(&mut queue, 1000);
        push(&mut queue, 7, 10);
        for _ in 1..100 {
            assert_eq!(cut(&mut queue, 1000), (0, 1000));
        }
        assert_eq!(cut(&mut queue, 1000), (7, 10));
    }

    #[test]
    fn what_was_idle_is_not_owed_what_it_did_not_send() {
        let mut queue = queue(true, 1);
        (0..50).for_each(|_| _ = cut(&mut queue, 1000));
        push(&mut queue, 1, 100_000);
        let sent: Vec<u16> = (0..6).map(|_| cut(&mut queue, 1000).0).collect();
        assert_eq!(sent, [1, 0, 1, 0, 1, 0]);
    }
}
