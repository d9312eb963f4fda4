//! The Internet checksum (RFC 1071) and its incremental update (RFC 1624).

/// A sum of 16-bit words that has not been folded yet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum(u64);

impl Sum {
    /// Adds bytes as big-endian words; a last odd byte is the upper half of a word. So only the
    /// last of several pieces may have an odd length.
    ///
    /// The sum is the same in either byte order (RFC 1071 §2 (B)), so words are added as this
    /// machine reads them, which the compiler does several at a time, and turned once.
    pub fn add_bytes(self, bytes: &[u8]) -> Self {
        let words = bytes.chunks_exact(4);
        let mut last = [0; 4];
        let rest = words.remainder();
        last[..rest.len()].copy_from_slice(rest);
        let of = |word: &[u8]| u64::from(u32::from_ne_bytes([word[0], word[1], word[2], word[3]]));
        let sum = Self(words.map(of).sum::<u64>() + of(&last));
        self.add_word(u16::from_be(sum.fold()))
    }

    /// Adds one word.
    pub const fn add_word(self, word: u16) -> Self {
        Self(self.0 + word as u64)
    }

    /// The sum folded to 16 bits, not complemented.
    pub const fn fold(self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    /// The checksum: the complement of the folded sum.
    pub const fn finish(self) -> u16 {
        !self.fold()
    }
}

/// Returns the checksum after a word of what it covers has changed. Source: RFC 1624, eq. 3.
pub(crate) const fn updated(checksum: u16, old: u16, new: u16) -> u16 {
    Sum(!checksum as u64).add_word(!old).add_word(new).finish()
}

/// Writes the checksum of `packet[from..]` and of what `pseudo` has summed up, to `place` in
/// `packet`. Returns false, and writes nothing, where that is not inside of it.
pub(crate) fn put_checksum(packet: &mut [u8], place: usize, pseudo: Sum, from: usize) -> bool {
    let covered = packet.get_mut(from..).unwrap_or_default();
    let at = place.wrapping_sub(from);
    let Some(field) = covered.get_mut(at..).and_then(|it| it.get_mut(..2)) else {
        return false;
    };
    field.fill(0);
    let sum = pseudo.add_bytes(covered).finish();
    covered[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    true
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn matches_the_example_of_rfc_1071() {
        let sum = Sum::default().add_bytes(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!(sum.fold(), 0xddf2);
        assert_eq!(Sum::default().add_bytes(&[0xab]).fold(), 0xab00);
    }

    #[test]
    fn matches_the_example_of_rfc_1624() {
        assert_eq!(updated(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    proptest! {
        #[test]
        fn an_update_is_the_same_as_a_new_sum(
            mut bytes in proptest::collection::vec(any::<u8>(), 2..64),
            place in any::<prop::sample::Index>(),
            new in 1u16..0xffff,
        ) {
            let place = place.index(bytes.len() / 2) * 2;
            // Sums of zero have two forms, which a header never has.
            bytes.extend_from_slice(&[0x45, 0]);
            let even = bytes.len() & !1;
            bytes.truncate(even);
            let before = Sum::default().add_bytes(&bytes).finish();
            let old = u16::from_be_bytes([bytes[place], bytes[place + 1]]);
            bytes[place..place + 2].copy_from_slice(&new.to_be_bytes());
            let after = Sum::default().add_bytes(&bytes).finish();
            prop_assert_eq!(updated(before, old, new), after);
        }
    }
}
