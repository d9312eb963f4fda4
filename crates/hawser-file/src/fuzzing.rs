//! Entry points for fuzzers: bytes in, no panic out.

use std::ops::Range;
use std::path::{Component, Path};

use bytes::Bytes;
use hawser_types::{ByteCount, RangeSet};

use super::byte_range::{ByteRange, byte_ranges};
use super::entry_path::EntryPath;
use super::layout::{Assembly, Layout};
use super::name::FileName;
use super::store::{decode_journal, encode_journal};
use super::wire::{Answer, Identity, Offer, Trailer};

/// An offer; a valid offer must survive being encoded again.
pub fn offer(data: &[u8]) {
    if let Ok(Some((offer, length))) = Offer::decode(data) {
        assert!(length <= data.len());
        let again = Offer::decode(&offer.encode());
        assert_eq!(again, Ok(Some((offer.clone(), offer.encode().len()))));
    }
}

/// An answer about a file whose size is the first eight bytes.
pub fn answer(data: &[u8]) {
    let Some((size, rest)) = data.split_first_chunk::<8>() else {
        return;
    };
    let size = ByteCount::new(u64::from_be_bytes(*size));
    if let Ok(Some((answer, length))) = Answer::decode(rest, size) {
        assert!(length <= rest.len());
        let bytes = answer.encode();
        assert_eq!(
            Answer::decode(&bytes, size),
            Ok(Some((answer, bytes.len())))
        );
    }
}

/// A trailer.
pub fn trailer(data: &[u8]) {
    let _ = Trailer::decode(data);
}

/// A file name, alone and with folders in front.
pub fn name(data: &[u8]) {
    if let Ok(name) = FileName::from_bytes(data) {
        assert!(!name.as_str().contains('/') && name.as_str() != "..");
    }
    if let Ok(path) = EntryPath::from_bytes(data) {
        let shown = path.to_string();
        assert_eq!(shown.as_bytes(), data);
        let stays = |it| matches!(it, Component::Normal(_));
        assert!(Path::new(&shown).components().all(stays));
    }
}

/// A journal: unchanged, and with a correct hash, so that the fields after the check are reached.
pub fn journal(data: &[u8]) {
    let identity = Identity([0; 32]);
    let _ = decode_journal(data, identity, u64::MAX);
    let mut sealed = data.to_vec();
    sealed.extend_from_slice(blake3::hash(data).as_bytes());
    if let Some(ranges) = decode_journal(&sealed, identity, u64::MAX) {
        let again = decode_journal(&encode_journal(identity, &ranges), identity, u64::MAX);
        assert_eq!(again, Some(ranges));
    }
}

/// Chunks at arbitrary offsets against an arbitrary list of wanted ranges.
pub fn placement(data: &[u8]) {
    let mut numbers = data.chunks_exact(4).map(|four| {
        four.iter()
            .fold(0u64, |number, &byte| number << 8 | u64::from(byte))
    });
    let mut next = move || numbers.next();
    let (Some(origin), Some(count)) = (next(), next()) else {
        return;
    };
    let mut wanted = RangeSet::new();
    for _ in 0..count % 16 {
        if let (Some(start), Some(length)) = (next(), next()) {
            wanted.extend(ByteRange::with_length(start, length).map(Range::from));
        }
    }
    let wanted: Vec<ByteRange> = byte_ranges(wanted.iter()).collect();
    let layout = Layout::new(origin, &wanted, 33);
    let mut message = Assembly::new(1024);
    while let (Some(offset), Some(length)) = (next(), next()) {
        let chunk = Bytes::from(vec![0; length as usize % 4096]);
        let _ = layout.place(offset, &chunk);
        let _ = message.put(offset as usize, &chunk);
        assert!(message.ready().len() <= 1024);
    }
}

#[cfg(test)]
mod tests;
