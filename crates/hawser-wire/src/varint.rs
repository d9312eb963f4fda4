use bytes::{Buf, BufMut};

use crate::{Malformed, MalformedReason};

/// The largest number that a varint can carry.
pub const MAX_VARINT: u64 = (1 << 62) - 1;

/// Returns the length of `value` as a varint: 1, 2, 4 or 8.
pub const fn varint_length(value: u64) -> usize {
    match value {
        0..0x40 => 1,
        0x40..0x4000 => 2,
        0x4000..0x4000_0000 => 4,
        _ => 8,
    }
}

/// Appends `value` as a varint; values above [`MAX_VARINT`] are written as [`MAX_VARINT`].
///
/// Source: RFC 9000 §16.
pub fn put_varint(out: &mut impl BufMut, value: u64) {
    let value = value.min(MAX_VARINT);
    match varint_length(value) {
        1 => out.put_u8(value as u8),
        2 => out.put_u16(value as u16 | 0x4000),
        4 => out.put_u32(value as u32 | 0x8000_0000),
        _ => out.put_u64(value | 0xC000_0000_0000_0000),
    }
}

/// Reads a varint at the front of `input`. Longer forms than needed are accepted, as in QUIC.
pub fn take_varint(input: &mut impl Buf, what: &'static str) -> Result<u64, Malformed> {
    if !input.has_remaining() {
        return Err(Malformed::truncated(what));
    }
    let first = input.chunk()[0];
    let length = 1usize << (first >> 6);
    if input.remaining() < length {
        return Err(Malformed::truncated(what));
    }
    Ok(match length {
        1 => u64::from(input.get_u8()),
        2 => u64::from(input.get_u16() & 0x3FFF),
        4 => u64::from(input.get_u32() & 0x3FFF_FFFF),
        _ => input.get_u64() & MAX_VARINT,
    })
}

/// Reads a varint that has to fit 32 bits.
pub(crate) fn take_varint_u32(input: &mut impl Buf, what: &'static str) -> Result<u32, Malformed> {
    u32::try_from(take_varint(input, what)?)
        .map_err(|_| Malformed::new(what, MalformedReason::TooLarge))
}

/// Reads a varint length of at most `limit`, and checks that this many bytes follow.
pub(crate) fn take_length(
    input: &mut impl Buf,
    limit: usize,
    what: &'static str,
) -> Result<usize, Malformed> {
    let length = take_varint(input, what)?;
    match usize::try_from(length) {
        Ok(length) if length <= limit => {
            if length > input.remaining() {
                return Err(Malformed::truncated(what));
            }
            Ok(length)
        }
        _ => Err(Malformed::new(what, MalformedReason::TooLarge)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_the_examples_of_rfc_9000_appendix_a_1() {
        for (bytes, value) in [
            (
                &[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c][..],
                151_288_809_941_952_652,
            ),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
        ] {
            let mut input = bytes;
            assert_eq!(take_varint(&mut input, "number"), Ok(value));
            let mut out = Vec::new();
            put_varint(&mut out, value);
            assert_eq!(out, bytes);
        }
    }

    #[test]
    fn a_cut_varint_is_truncated() {
        assert!(take_varint(&mut &[0x9d, 0x7f][..], "number").is_err());
        assert!(take_varint(&mut &[][..], "number").is_err());
    }

    proptest::proptest! {
        #[test]
        fn every_number_survives_the_round_trip(value in 0..=MAX_VARINT) {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            proptest::prop_assert_eq!(out.len(), varint_length(value));
            proptest::prop_assert_eq!(take_varint(&mut &out[..], "number"), Ok(value));
        }
    }
}
