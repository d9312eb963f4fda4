//! Replays the fuzzer's corpus, and random input.

use std::fs;
use std::path::Path;

use hawser_sctp::fuzzing::fuzz_endpoint;
use proptest::prelude::*;

#[test]
fn every_file_of_the_corpus_is_read_without_a_panic() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/sctp_endpoint");
    let mut files = 0;
    for input in fs::read_dir(&folder).unwrap() {
        fuzz_endpoint(&fs::read(input.unwrap().path()).unwrap());
        files += 1;
    }
    assert!(files > 0, "the corpus is gone: {}", folder.display());
}

/// A packet whose chunks have valid headers.
fn packet() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop_oneof![
        0u8..16,
        prop::sample::select(vec![64, 67, 83, 128, 130, 132, 192, 193, 194]),
        any::<u8>(),
    ];
    let value = proptest::collection::vec(any::<u8>(), 0..40);
    let chunk = (kind, 0u8..16, value).prop_map(|(kind, flags, mut value)| {
        let length = value.len() as u8 + 4;
        value.resize(value.len().next_multiple_of(4), 0);
        [&[kind, flags, 0, length][..], &value].concat()
    });
    let chunks = proptest::collection::vec(chunk, 1..5);
    (0u8..32, chunks).prop_map(|(how, chunks)| {
        let chunks = chunks.concat();
        [&[how, chunks.len() as u8][..], &chunks].concat()
    })
}

proptest! {
    #[test]
    fn no_sequence_of_packets_makes_it_panic(
        packets in proptest::collection::vec(packet(), 0..30),
    ) {
        fuzz_endpoint(&packets.concat());
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        fuzz_endpoint(&bytes);
    }
}
