//! Numbers as bytes: small numbers take few.

/// Appends a number, seven bits in each byte, the lowest first. The highest bit of a byte is set if
/// another follows.
#[inline]
pub(super) fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends the difference of a number from one that the reader knows.
#[inline]
pub(super) fn put_change(out: &mut Vec<u8>, new: u64, old: u64) {
    let change = new.wrapping_sub(old) as i64;
    // Small differences of either sign become small numbers.
    put(out, ((change << 1) ^ (change >> 63)) as u64);
}

/// Appends the number of bytes, and the bytes.
pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads numbers from bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    pub(super) fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    /// Reads a number; `None` if it exceeds `most`.
    pub(super) fn bounded(&mut self, most: usize) -> Option<usize> {
        let number = usize::try_from(self.number()?).ok()?;
        (number <= most).then_some(number)
    }

    /// Reads the number whose difference from `old` was written by [`put_change`].
    pub(super) fn change(&mut self, old: u64) -> Option<u64> {
        let folded = self.number()?;
        let change = (folded >> 1) as i64 ^ -((folded & 1) as i64);
        Some(old.wrapping_add(change as u64))
    }

    /// Reads the bytes written by [`put_bytes`]; `None` for more than `most`.
    pub(super) fn bytes(&mut self, most: usize) -> Option<&'a [u8]> {
        let length = self.bounded(most)?;
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_and_changes_come_back(number: u64, old: u64, bytes: Vec<u8>) {
            let mut out = Vec::new();
            put(&mut out, number);
            put_change(&mut out, number, old);
            put_bytes(&mut out, &bytes);
            let mut reader = Reader(&out);
            prop_assert_eq!(reader.number(), Some(number));
            prop_assert_eq!(reader.change(old), Some(number));
            prop_assert_eq!(reader.bytes(bytes.len()), Some(&bytes[..]));
            prop_assert!(reader.is_empty());
        }

        #[test]
        fn arbitrary_bytes_are_read_without_a_panic(bytes: Vec<u8>) {
            let mut reader = Reader(&bytes);
            while reader.number().is_some() {}
            let _ = Reader(&bytes).bytes(100);
        }
    }
}
