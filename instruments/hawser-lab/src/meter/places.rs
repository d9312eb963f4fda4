//! Bytes that encode their position, so that a lost, duplicated or misplaced one is detected, at
//! next to no cost compared with the measured code.
//!
//! Byte n of the data is byte n % [`PERIOD`] of a row of hashes, as in `association/usrsctp.c`.

use std::sync::OnceLock;

use bytes::Bytes;

/// The bytes at a place of what is sent.
pub(super) fn bytes_at(place: u64, size: usize) -> Bytes {
    let start = (place % PERIOD as u64) as usize;
    if size > LONGEST {
        return row()[..PERIOD]
            .iter()
            .copied()
            .cycle()
            .skip(start)
            .take(size)
            .collect();
    }
    row().slice(start..start + size)
}

/// Returns the number of bytes of `received` that differ from those sent at `place`.
pub(super) fn wrong_at(place: u64, received: &[u8]) -> u64 {
    let (mut wrong, mut place) = (0, place);
    for piece in received.chunks(LONGEST) {
        let expected = bytes_at(place, piece.len());
        if piece != expected {
            let differ = piece.iter().zip(&expected).filter(|(a, b)| a != b);
            wrong += differ.count() as u64;
        }
        place += piece.len() as u64;
    }
    wrong
}

/// Long enough to take any message from, wherever it begins.
fn row() -> &'static Bytes {
    static ROW: OnceLock<Bytes> = OnceLock::new();
    ROW.get_or_init(|| {
        let words = (0..PERIOD as u64 / 8).map(hash).map(u64::to_le_bytes);
        let once: Vec<u8> = words.flatten().collect();
        once.iter()
            .copied()
            .cycle()
            .take(PERIOD + LONGEST)
            .collect()
    })
}

/// SplitMix64.
fn hash(word: u64) -> u64 {
    let mixed = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// A prime number of words: no size of messages or packets divides it.
const PERIOD: usize = 8191 * 8;
const LONGEST: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_in_pieces_of_any_size_is_right_at_its_place_and_nowhere_else() {
        let whole = bytes_at(0, 3 * LONGEST);
        for from in [0, 1, 7, PERIOD - 1, PERIOD, LONGEST + 5] {
            for size in [0, 1, 8, 13, 1400, LONGEST, LONGEST + 9] {
                let piece = bytes_at(from as u64, size);
                assert_eq!(piece, whole[from..from + size], "{from} {size}");
                assert_eq!(wrong_at(from as u64, &piece), 0);
            }
        }
        assert!(wrong_at(1, &whole[..1000]) > 900);
        assert!(wrong_at(1400, &whole[..1400]) > 1300);
    }

    #[test]
    fn each_wrong_byte_counts_once() {
        for at in [0, 1, 99, LONGEST, LONGEST + 50] {
            let mut bytes = bytes_at(5, LONGEST + 100).to_vec();
            bytes[at] ^= 1;
            assert_eq!(wrong_at(5, &bytes), 1, "{at}");
        }
    }
}
