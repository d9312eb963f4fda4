//! Messages of a session about associations, and the record number in front of records sent over
//! one.

use std::fmt;
use std::str::FromStr;

use bytes::{BufMut, Bytes};
use hawser_types::{LinkIndex, RecordNumber};

use crate::varint::take_varint_u32;
use crate::{Malformed, MalformedReason, put_varint, take_varint};

/// Choice of the transport for chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TransportChoice {
    /// TCP channels only.
    Tcp,
    /// An association while it works, else TCP channels.
    Sctp,
    /// The transport that delivers more, the association first.
    #[default]
    Auto,
}

impl TransportChoice {
    /// All choices.
    pub const ALL: [Self; 3] = [Self::Tcp, Self::Sctp, Self::Auto];

    /// Returns the name in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Sctp => "sctp",
            Self::Auto => "auto",
        }
    }

    pub(crate) fn read(value: u64) -> Result<Self, Malformed> {
        let found = Self::ALL
            .into_iter()
            .find(|transport| *transport as u64 == value);
        found.ok_or(Malformed::new("transport", MalformedReason::BadValue))
    }
}

impl FromStr for TransportChoice {
    type Err = UnknownTransport;

    fn from_str(name: &str) -> Result<Self, UnknownTransport> {
        let mut all = Self::ALL.into_iter();
        let named = all.find(|transport| transport.name() == name);
        named.ok_or_else(|| UnknownTransport(name.to_owned()))
    }
}

/// Not the name of a transport choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownTransport(String);

impl fmt::Display for UnknownTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown transport `{}`: allowed are", self.0)?;
        let mut all = TransportChoice::ALL.iter();
        all.try_for_each(|transport| write!(f, " {}", transport.name()))
    }
}

impl std::error::Error for UnknownTransport {}

/// Writes the number of a record ahead of its frames, for an association. `None`: a record without
/// a chunk has no number.
pub fn put_record_number(number: Option<RecordNumber>, out: &mut impl BufMut) {
    put_varint(out, number.map_or(0, |number| number.value() + 1));
}

/// Reads the record number of an association's message; frames are left.
pub fn take_record_number(message: &mut Bytes) -> Result<Option<RecordNumber>, Malformed> {
    let value = take_varint(message, "record number")?;
    Ok(value.checked_sub(1).map(RecordNumber::new))
}

/// Reads the client's number of a link. The number that stands for all links is not allowed.
pub(crate) fn take_link(input: &mut Bytes, what: &'static str) -> Result<u32, Malformed> {
    let link = take_varint_u32(input, what)?;
    match LinkIndex::new(link) {
        LinkIndex::ALL => Err(Malformed::new(what, MalformedReason::BadValue)),
        _ => Ok(link),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_numbers_have_these_golden_bytes() {
        for (number, golden) in [
            (None, &[0x00][..]),
            (Some(0), &[0x01]),
            (Some(62), &[0x3f]),
            (Some(63), &[0x40, 0x40]),
            (Some(1 << 20), &[0x80, 0x10, 0x00, 0x01]),
        ] {
            let number = number.map(RecordNumber::new);
            let mut out = Vec::new();
            put_record_number(number, &mut out);
            assert_eq!(out, golden);
            let mut message = Bytes::from(out);
            assert_eq!(take_record_number(&mut message), Ok(number));
            assert!(message.is_empty());
        }
        assert!(take_record_number(&mut Bytes::new()).is_err());
        assert!(take_record_number(&mut Bytes::from_static(&[0x40])).is_err());
    }

    #[test]
    fn the_number_that_stands_for_all_links_is_no_links() {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, u64::from(LinkIndex::ALL.value()) - 1);
        put_varint(&mut bytes, u64::from(LinkIndex::ALL.value()));
        let mut input = Bytes::from(bytes);
        assert_eq!(take_link(&mut input, "link"), Ok(u32::MAX - 1));
        let error = take_link(&mut input, "link").unwrap_err();
        assert_eq!(error.reason, MalformedReason::BadValue);
    }
}
