//! Conversion between records of a session and messages of an association.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use hawser_sctp::{Association, End, Message, Received, Reliability, SendError};
use hawser_session::Outgoing;
use hawser_types::Instant;
use hawser_wire::sctp::StreamNumber;

/// Returns the message that carries a record, and its stream: one of `streams`.
///
/// Messages are unordered, because the session orders the chunks itself.
///
/// With `counts`, placed chunks are counted for their streams.
pub(super) fn message_of(record: Outgoing, streams: u16, counts: bool) -> (StreamNumber, Message) {
    let stream = StreamNumber::new(record.sctp_stream(streams));
    let reliability = record.lifetime.map(Reliability::Lifetime);
    let twice = record.duplicate;
    let has_chunk = !record.payload.is_empty() && record.lifetime.is_none();
    let owner_stream = (counts && has_chunk).then_some(record.stream);
    let message = Message {
        unordered: true,
        reliability: reliability.unwrap_or_default(),
        twice,
        owner_stream,
        ..Message::new(payload_of(record))
    };
    (stream, message)
}

/// Returns the head and the payload of a record in one piece.
fn payload_of(record: Outgoing) -> Bytes {
    if record.payload.is_empty() {
        return record.head.freeze();
    }
    let mut whole = BytesMut::with_capacity(length(&record));
    whole.extend_from_slice(&record.head);
    for piece in &record.payload {
        whole.extend_from_slice(piece);
    }
    whole.freeze()
}

/// Returns the length of the message that carries a record.
pub(super) fn length(record: &Outgoing) -> usize {
    record.head.len() + record.payload.iter().map(Bytes::len).sum::<usize>()
}

/// Returns the record in a message, copied if it arrived in several parts; `None` for part of a
/// message. A peer that follows the protocol never causes the latter: records are far smaller than
/// the limit of an incomplete message.
pub fn record_of(received: &Received) -> Option<Bytes> {
    (received.end == End::Whole).then(|| received.payload())
}

/// Passes messages from the front of `messages` to an association while it has room. The rest stays
/// in the queue.
///
/// # Errors
/// As for [`Association::send`]; the faulty message is removed.
pub fn send_waiting(
    now: Instant,
    association: &mut Association,
    messages: &mut VecDeque<(StreamNumber, Message)>,
) -> Result<(), SendError> {
    while let Some((stream, message)) = messages.front() {
        // The payload is shared, not copied.
        match association.send(now, *stream, message.clone()) {
            Err(SendError::Full) => break,
            sent => {
                messages.pop_front();
                sent?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hawser_types::StreamId;

    use super::*;

    #[test]
    fn a_record_is_one_unordered_message_with_head_and_payload() {
        let record = Outgoing {
            head: BytesMut::from(&b"head"[..]),
            payload: [Bytes::from_static(b"one"), Bytes::from_static(b"two")].into(),
            ..Outgoing::default()
        };
        assert_eq!(length(&record), 10);
        let (stream, message) = message_of(record, 1, false);
        assert_eq!(stream, StreamNumber::new(0));
        assert_eq!(message.payload, "headonetwo");
        assert!(message.unordered && !message.twice);
        assert_eq!(message.owner_stream, None);
        assert_eq!(message.reliability, Reliability::Full);
    }

    #[test]
    fn what_a_record_says_of_its_worth_holds_for_its_message() {
        let lifetime = Duration::from_millis(250);
        let record = Outgoing {
            head: BytesMut::from(&b"datagram"[..]),
            lifetime: Some(lifetime),
            duplicate: true,
            ..Outgoing::default()
        };
        let (_, message) = message_of(record, 1, true);
        assert_eq!(message.reliability, Reliability::Lifetime(lifetime));
        assert!(message.twice);
        assert_eq!(message.owner_stream, None, "datagrams are no chunks");
    }

    #[test]
    fn what_is_placed_of_chunks_is_counted_for_their_streams_where_that_is_wanted() {
        let record = |payload: &'static [u8]| Outgoing {
            head: BytesMut::from(&b"head"[..]),
            payload: [Bytes::from_static(payload)]
                .into_iter()
                .filter(|it| !it.is_empty())
                .collect(),
            stream: StreamId::new(6),
            ..Outgoing::default()
        };
        let stream = |record, counts| message_of(record, 9, counts).1.owner_stream;
        assert_eq!(stream(record(b"chunk"), true), Some(StreamId::new(6)));
        assert_eq!(stream(record(b"chunk"), false), None);
        assert_eq!(stream(record(b""), true), None, "state is no chunk");
    }
}
