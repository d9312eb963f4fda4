//! Elements of type, length and value: chunks, parameters and causes.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::{Malformed, MalformedReason};

/// An element: type, or type and flags, in two bytes, then its length without padding, then the
/// value.
#[derive(Debug)]
pub(super) struct Element {
    /// The first two bytes.
    pub(super) head: [u8; 2],
    /// The whole element, without padding.
    pub(super) whole: Bytes,
}

impl Element {
    /// Reads the first of several elements; `None` at their end.
    ///
    /// The last one's padding may be missing: implementations differ on whether a chunk's length
    /// counts it.
    pub(super) fn take(rest: &mut Bytes, what: &'static str) -> Result<Option<Self>, Malformed> {
        if rest.is_empty() {
            return Ok(None);
        }
        let Some(&[first, second, high, low]) = rest.first_chunk() else {
            return Err(Malformed::truncated(what));
        };
        let length = usize::from(u16::from_be_bytes([high, low]));
        if length < ELEMENT_HEADER {
            return Err(Malformed::new(what, MalformedReason::BadValue));
        }
        if length > rest.len() {
            return Err(Malformed::truncated(what));
        }
        let whole = rest.split_to(length);
        rest.advance(padding(length).min(rest.len()));
        Ok(Some(Self {
            head: [first, second],
            whole,
        }))
    }

    pub(super) fn kind(&self) -> u16 {
        u16::from_be_bytes(self.head)
    }

    pub(super) fn value(&self) -> Bytes {
        self.whole.slice(ELEMENT_HEADER..)
    }
}

/// Appends an element at the next multiple of four. Its own padding is left to the next element,
/// since it does not count in the length of the enclosing one.
pub(super) fn put_element(
    out: &mut BytesMut,
    head: impl Into<[u8; 2]>,
    value: impl FnOnce(&mut BytesMut),
) {
    pad(out);
    let start = out.len();
    out.put_slice(&head.into());
    out.put_u16(0);
    value(out);
    // An element too long for the field is too long for the packet; the writer checks that.
    let length = u16::try_from(out.len() - start).unwrap_or(u16::MAX);
    out[start + 2..start + 4].copy_from_slice(&length.to_be_bytes());
}

/// Appends zeros up to the next multiple of four.
pub(super) fn pad(out: &mut BytesMut) {
    out.put_bytes(0, padding(out.len()));
}

/// Returns the distance to the next multiple of four.
pub(super) const fn padding(length: usize) -> usize {
    length.next_multiple_of(4) - length
}

/// Reader of numbers at the front of an element's value.
#[derive(Debug)]
pub(super) struct Reader {
    what: &'static str,
    rest: Bytes,
}

impl Reader {
    /// `what` names the element in errors.
    pub(super) fn new(what: &'static str, value: Bytes) -> Self {
        Self { what, rest: value }
    }

    pub(super) fn take_u16(&mut self) -> Result<u16, Malformed> {
        let taken = self.rest.try_get_u16();
        taken.map_err(|_| Malformed::truncated(self.what))
    }

    pub(super) fn take_u32(&mut self) -> Result<u32, Malformed> {
        let taken = self.rest.try_get_u32();
        taken.map_err(|_| Malformed::truncated(self.what))
    }

    /// Returns the unread rest.
    pub(super) fn rest(self) -> Bytes {
        self.rest
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Fails if unread bytes are left.
    pub(super) fn end(self) -> Result<(), Malformed> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(self.error(MalformedReason::TrailingBytes))
        }
    }

    pub(super) fn error(&self, reason: MalformedReason) -> Malformed {
        Malformed::new(self.what, reason)
    }

    pub(super) fn remaining(&self) -> usize {
        self.rest.len()
    }
}

pub(super) const ELEMENT_HEADER: usize = 4;
