//! Contents of a bonded stream for datagrams: its opening, and the datagrams that it contains
//! before it is accepted.
//!
//! The opening is an encoded [`Destination`] whose kind is 4, 5 or 6 in place of 1, 2 or 3, or 7, 8
//! or 9 for a call. The acceptor answers with the address that it sends to, encoded as a
//! destination. Until the acceptance the opener puts datagrams into the stream, each behind its
//! length (2 bytes), since a datagram beside the stream might overtake the opening. Afterwards
//! datagrams go beside the stream.

use bytes::{Buf, Bytes, BytesMut};
use hawser_wire::StreamKind;

use crate::destination::{Destination, DestinationError};

/// Returns the opening for datagrams to `destination`, of a call or others.
pub fn of(destination: &Destination, is_call: bool) -> Bytes {
    let mut bytes = destination.to_bytes();
    if let Some(kind) = bytes.first_mut() {
        *kind += if is_call { CALLS } else { KINDS };
    }
    bytes.into()
}

/// Reads the destination of a stream's datagrams, and whether they belong to a call.
///
/// # Errors
/// The fault in the bytes.
pub fn read(opening: &[u8]) -> Result<(Destination, bool), DestinationError> {
    let (&kind, rest) = opening.split_first().ok_or(DestinationError::Truncated)?;
    let is_call = kind > CALLS;
    let plain = kind
        .checked_sub(if is_call { CALLS } else { KINDS })
        .ok_or(DestinationError::UnknownKind(kind))?;
    let destination = Destination::decode(&[&[plain], rest].concat());
    let destination = destination.map_err(|error| match error {
        DestinationError::UnknownKind(_) => DestinationError::UnknownKind(kind),
        other => other,
    })?;
    Ok((destination, is_call))
}

/// Appends a datagram behind its length. `false`: it is too large.
pub fn put_early(payload: &[u8], out: &mut Vec<u8>) -> bool {
    let Ok(length) = u16::try_from(payload.len()) else {
        return false;
    };
    out.extend(length.to_be_bytes());
    out.extend_from_slice(payload);
    true
}

/// Takes the next datagram off the bytes of a stream; `None` until it is complete.
pub fn take_early(bytes: &mut BytesMut) -> Option<Bytes> {
    let length = usize::from(u16::from_be_bytes(*bytes.first_chunk()?));
    if bytes.len() < EARLY_HEADER + length {
        return None;
    }
    bytes.advance(EARLY_HEADER);
    Some(bytes.split_to(length).freeze())
}

/// Length of the header ahead of a datagram in the stream, in bytes.
pub const EARLY_HEADER: usize = 2;
/// Maximum early bytes in the stream: half of the credit that every stream has from the start.
pub const MAX_EARLY: usize = 32 * 1024;

/// Distance from the kinds of hosts for connections to those for datagrams.
const KINDS: u8 = StreamKind::DatagramsV4.number() - StreamKind::ConnectV4.number();
/// Distance from the kinds of hosts for connections to those for calls.
const CALLS: u8 = StreamKind::CallV4.number() - StreamKind::ConnectV4.number();

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn openings_have_these_bytes_and_come_back() {
        for (text, bytes) in [
            ("192.0.2.7:53", &b"\x04\0\x35\xc0\0\x02\x07"[..]),
            ("example.org:53", b"\x06\0\x35\x0bexample.org"),
        ] {
            let to: Destination = text.parse().unwrap();
            assert_eq!(of(&to, false), bytes);
            assert_eq!(read(bytes), Ok((to.clone(), false)));
            let call = [&[bytes[0] + 3], &bytes[1..]].concat();
            assert_eq!(of(&to, true), call);
            assert_eq!(read(&call), Ok((to, true)));
        }
        assert_eq!(read(b""), Err(DestinationError::Truncated));
        let unknown = |kind| Err(DestinationError::UnknownKind(kind));
        assert_eq!(read(&[1, 0, 53, 1, 2, 3, 4]), unknown(1));
        assert_eq!(read(&[10, 0, 53]), unknown(10));
    }

    proptest! {
        #[test]
        fn early_datagrams_come_back_however_they_are_cut(
            list in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..6),
            step in 1..700usize,
        ) {
            let mut all = Vec::new();
            for payload in &list {
                prop_assert!(put_early(payload, &mut all));
            }
            let (mut bytes, mut got) = (BytesMut::new(), Vec::new());
            for piece in all.chunks(step) {
                bytes.extend_from_slice(piece);
                while let Some(payload) = take_early(&mut bytes) {
                    got.push(payload.to_vec());
                }
            }
            prop_assert_eq!(got, list);
        }
    }
}
