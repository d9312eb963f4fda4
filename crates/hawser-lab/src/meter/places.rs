//! Bytes that tell their place, so that one that is lost, doubled or in the wrong place shows.
//!
//! Byte n of what is sent is byte n % 8 of a hash of n / 8, as in `association/usrsctp.c`.

use bytes::Bytes;

/// The bytes at a place of what is sent.
pub(super) fn bytes_at(place: u64, size: usize) -> Bytes {
    let skipped = (place % 8) as usize;
    let mut bytes = vec![0; (skipped + size).next_multiple_of(8)];
    for (word, number) in bytes.chunks_exact_mut(8).zip(place / 8..) {
        word.copy_from_slice(&hash(number).to_le_bytes());
    }
    Bytes::from(bytes).slice(skipped..skipped + size)
}

/// How many bytes of `received` are not what is sent at `place`.
pub(super) fn wrong_at(place: u64, received: &[u8]) -> u64 {
    let to_word = (place.wrapping_neg() % 8) as usize;
    let (head, rest) = received.split_at(to_word.min(received.len()));
    let words = rest.chunks_exact(8);
    let tail = words.remainder();
    let first = (place + head.len() as u64) / 8;
    let (mut wrong, mut number) = (wrong_bytes(place, head), first);
    for word in words {
        if word != hash(number).to_le_bytes() {
            wrong += wrong_bytes(number * 8, word);
        }
        number += 1;
    }
    wrong + wrong_bytes(number * 8, tail)
}

/// Likewise of a few bytes.
fn wrong_bytes(place: u64, received: &[u8]) -> u64 {
    let expected = |place: u64| hash(place / 8).to_le_bytes()[(place % 8) as usize];
    let differ = received.iter().zip(place..);
    differ
        .filter(|(byte, place)| **byte != expected(*place))
        .count() as u64
}

/// SplitMix64.
fn hash(word: u64) -> u64 {
    let mixed = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_in_pieces_of_any_size_is_right_at_its_place_and_nowhere_else() {
        let whole = bytes_at(0, 100);
        for from in 0..40 {
            for size in 0..40 {
                let piece = bytes_at(from, size);
                let at = from as usize;
                assert_eq!(piece, whole[at..at + size]);
                assert_eq!(wrong_at(from, &piece), 0);
            }
        }
        assert!(wrong_at(1, &whole) > 80);
    }

    #[test]
    fn each_wrong_byte_counts_once() {
        for size in 1..40 {
            for at in 0..size {
                let mut bytes = bytes_at(5, size).to_vec();
                bytes[at] ^= 1;
                assert_eq!(wrong_at(5, &bytes), 1, "{at} of {size}");
            }
        }
    }
}
