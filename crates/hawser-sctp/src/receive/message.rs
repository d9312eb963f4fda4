use bytes::Bytes;
use hawser_types::PathId;
use hawser_wire::sctp::StreamNumber;
use smallvec::SmallVec;

/// A received message, or a piece of one that is too long to wait for its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// The stream of the message.
    pub stream: StreamNumber,
    /// Payload protocol identifier, set by the sender.
    pub protocol: u32,
    /// The message was delivered as soon as it was complete.
    pub unordered: bool,
    /// Number of the message: equal in all its pieces, different from other messages being
    /// delivered.
    pub message: u32,
    /// End of the message or of the piece.
    pub end: End,
    /// Its place among all that the peer has sent.
    pub carrier: Carrier,
    parts: SmallVec<[Bytes; 1]>,
    /// Buffer charge while it was kept, in bytes.
    charge: usize,
}

/// Where a message comes in the order of what the peer has sent, and the path that it took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carrier {
    /// The path that its last part came over; `None` for one that is not known.
    pub path: Option<PathId>,
    /// TSN of that part, as a number that does not wrap.
    pub number: u64,
}

/// How a [`Received`] ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The message is complete.
    Whole,
    /// Another piece follows: the buffer was too full to wait for the end.
    More,
    /// Empty: the sender has abandoned the rest of a message delivered in part ([`End::More`]).
    GivenUp,
}

impl Received {
    /// Returns the length of the payload.
    pub fn length(&self) -> usize {
        self.parts.iter().map(Bytes::len).sum()
    }

    /// Returns the payload in one piece; copied if it has several parts.
    pub fn payload(&self) -> Bytes {
        match &self.parts[..] {
            [only] => only.clone(),
            parts => parts.concat().into(),
        }
    }

    /// Returns the parts of the payload, in order.
    pub fn parts(&self) -> &[Bytes] {
        &self.parts
    }

    pub(super) fn of(head: MessageHeader) -> Self {
        Self {
            stream: head.stream,
            protocol: head.protocol,
            unordered: head.unordered,
            message: head.number,
            end: End::Whole,
            carrier: head.carrier,
            parts: SmallVec::new(),
            charge: 0,
        }
    }

    pub(super) fn given_up(head: MessageHeader) -> Self {
        Self {
            end: End::GivenUp,
            ..Self::of(head)
        }
    }

    /// Reserves memory for this many parts.
    pub(super) fn reserve(&mut self, parts: usize) {
        self.parts.reserve_exact(parts);
    }

    /// Returns the buffer charge while it was kept.
    pub(super) fn charge(&self) -> usize {
        self.charge
    }

    pub(super) fn push(&mut self, part: Bytes) {
        self.charge += charge(&part);
        self.parts.push(part);
    }
}

/// Properties common to all parts of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct MessageHeader {
    pub(super) stream: StreamNumber,
    pub(super) unordered: bool,
    /// Number of the message in the stream; for an unordered DATA message, the TSN of the part.
    pub(super) number: u32,
    /// Payload protocol identifier, from the first part.
    pub(super) protocol: u32,
    /// Place and path of the part.
    pub(super) carrier: Carrier,
}

/// Returns the buffer charge of a part.
pub(super) fn charge(payload: &Bytes) -> usize {
    payload.len() + PART_OVERHEAD
}

/// Memory for a part besides its payload: a table entry and an allocation.
pub(super) const PART_OVERHEAD: usize = 160;
