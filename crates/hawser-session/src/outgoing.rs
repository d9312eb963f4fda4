use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hawser_types::StreamId;
use hawser_wire::{MAX_RECORD_BODY, StateFrame};

use crate::Payload;
use crate::seal::TAG_LENGTH;

/// A record to be sealed and written: state frames and the chunk's header, then the payload.
#[derive(Debug, Default)]
pub struct Outgoing {
    /// State frames and the chunk's header.
    pub head: BytesMut,
    /// Payload of the chunk; empty for a record of state only.
    pub payload: Payload,
    /// Stream that the record belongs to; the command stream for records that belong to none.
    pub stream: StreamId,
    /// Time after which an association may give the record up. `None`: it must arrive.
    pub lifetime: Option<Duration>,
    /// The association should send the record over two paths at once, since it is short and an
    /// application waits for it.
    /// [`AssociationSample::duplicated`](crate::AssociationSample::duplicated) tells what the
    /// association made of it. Never set for TCP.
    pub duplicate: bool,
}

impl Outgoing {
    /// The SCTP stream of packets of tunnels, which no record uses. It is low, since its number is
    /// in front of each of them.
    pub const TUNNEL_STREAM: u16 = 1;

    /// Returns the SCTP stream that carries the record, of `count` to send on. Commands and state
    /// have the first SCTP stream for themselves; the session's streams share an odd number of
    /// those that are left, since what one end opens has numbers of one parity.
    pub fn sctp_stream(&self, count: u16) -> u16 {
        let first = Self::TUNNEL_STREAM + 1;
        let others = u64::from(count.saturating_sub(first));
        let others = others.saturating_sub(1 - others % 2);
        match (self.stream.value().checked_sub(1), others) {
            (None, _) | (_, 0) => 0,
            (Some(number), others) => (number % others) as u16 + first,
        }
    }

    /// Makes it an empty record again; its memory stays.
    pub(crate) fn clear(&mut self) {
        self.head.clear();
        self.payload.clear();
        (self.stream, self.lifetime, self.duplicate) = (StreamId::COMMANDS, None, false);
    }

    /// Appends a frame to the head, unless that makes the head longer than `most` bytes. True if
    /// the frame is there.
    pub(crate) fn put(&mut self, most: usize, frame: &StateFrame) -> bool {
        let before = self.head.len();
        frame.encode(&mut self.head);
        let fits = self.head.len() <= most;
        if !fits {
            self.head.truncate(before);
        }
        fits
    }

    /// Returns the bytes of the whole body.
    pub(crate) fn length(&self) -> usize {
        self.head.len() + self.payload_length()
    }

    /// Returns the bytes of the payload.
    pub(crate) fn payload_length(&self) -> usize {
        self.payload.iter().map(Bytes::len).sum()
    }
}

/// Bytes that the body of a record may have, the tag left out: no peer takes more.
pub(crate) const MAX_BODY: usize = MAX_RECORD_BODY - TAG_LENGTH;
/// Bytes that any state frame fits in: a type, a length and five varints.
pub(crate) const MAX_STATE_FRAME: usize = 2 + 5 * 8;
