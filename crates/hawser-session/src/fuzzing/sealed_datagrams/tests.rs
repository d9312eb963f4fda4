//! Sealed datagrams that are lost, repeated, reordered, altered and late, across changes of keys.

use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::fuzz_datagrams;

#[test]
fn every_file_of_the_corpus_is_played() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/sealed_datagrams");
    let mut files = 0;
    for input in fs::read_dir(&folder).unwrap() {
        fuzz_datagrams(&fs::read(input.unwrap().path()).unwrap());
        files += 1;
    }
    assert!(files > 0, "the corpus is gone: {}", folder.display());
}

/// Two bytes: what happens, and to which datagram or how much of it.
fn step() -> impl Strategy<Value = [u8; 2]> {
    prop_oneof![
        6 => (0u8..60).prop_map(|length| [0, length]),
        8 => (0u8..60).prop_map(|which| [1, which]),
        2 => (any::<u8>(), 0u8..8).prop_map(|(at, bit)| [2 + 6 * bit, at]),
        1 => (0u8..90).prop_map(|minutes| [3, minutes]),
        2 => (0u8..40).prop_map(|seconds| [4, seconds]),
    ]
}

proptest! {
    #[test]
    fn each_datagram_opens_once_whatever_happens_on_the_way(
        steps in proptest::collection::vec(step(), 0..200),
    ) {
        fuzz_datagrams(&steps.concat());
    }

    #[test]
    fn no_bytes_open_or_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        fuzz_datagrams(&bytes);
    }
}
