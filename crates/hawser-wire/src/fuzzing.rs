//! Entry points for the fuzzers: each takes any bytes and must return.

use bytes::Bytes;

use crate::{CommandDecoder, FrameIterator, JoinPrelude, RecordHeader};

/// The body of an opened record.
pub fn fuzz_frames(data: &[u8]) {
    for frame in FrameIterator::new(Bytes::copy_from_slice(data)) {
        let _ = frame;
    }
}

/// The command stream, arriving in two pieces.
pub fn fuzz_commands(data: &[u8]) {
    let mut decoder = CommandDecoder::default();
    let (head, tail) = data.split_at(data.len() / 2);
    for piece in [head, tail] {
        decoder.push(piece);
        while let Ok(Some(_)) = decoder.next_command() {}
    }
}

/// The first bytes of a connection and the header of its first record.
pub fn fuzz_join(data: &[u8]) {
    if let Some((prelude, rest)) = data.split_first_chunk() {
        let _ = JoinPrelude::decode(prelude);
        if let Some((header, _)) = rest.split_first_chunk() {
            let _ = RecordHeader::decode(*header);
        }
    }
}
