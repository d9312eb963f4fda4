//! Replays the fuzzers' corpora, and random input, with an eye on memory.

use std::fs;
use std::panic;
use std::path::Path;

use proptest::prelude::*;

use super::{MAX_PAIR_MEMORY, fuzz_endpoint, fuzz_pair};

/// Reads every file of a fuzzer's corpus.
fn replay(name: &str, read: fn(&[u8])) {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let folder = corpora.join(name);
    let mut files = 0;
    for input in fs::read_dir(&folder).unwrap() {
        let path = input.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        let outcome = panic::catch_unwind(|| read(&bytes));
        assert!(outcome.is_ok(), "{}", path.display());
        files += 1;
    }
    assert!(files > 0, "the corpus is gone: {}", folder.display());
}

/// Plays a script for two hosts and checks how much memory it took at most.
fn play(script: &[u8]) {
    let mut outcome = Ok(());
    // A panic must not leave the counter counting.
    let counted = || outcome = panic::catch_unwind(|| fuzz_pair(script));
    let used = allocation_counter::measure(counted).bytes_max;
    if let Err(panicked) = outcome {
        panic::resume_unwind(panicked);
    }
    assert!(used <= MAX_PAIR_MEMORY, "{used} bytes are used at once");
}

#[test]
fn every_file_of_the_corpus_is_read_without_a_panic() {
    replay("sctp_endpoint", fuzz_endpoint);
}

#[test]
fn every_script_of_the_corpus_keeps_the_promises_of_associations() {
    replay("associations", play);
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

/// A step without an attacker.
fn honest_step() -> impl Strategy<Value = Vec<u8>> {
    (0u8..26, any::<bool>(), any::<[u8; 4]>())
        .prop_map(|(op, host, arguments)| [&[op | u8::from(host) << 7][..], &arguments].concat())
}

proptest! {
    #[test]
    fn whatever_honest_hosts_do_the_promises_of_associations_hold(
        how in any::<[u8; 2]>(),
        steps in proptest::collection::vec(honest_step(), 0..80),
    ) {
        play(&[&how[..], &steps.concat()].concat());
    }

    #[test]
    fn no_script_breaks_the_promises(script in proptest::collection::vec(any::<u8>(), 0..500)) {
        play(&script);
    }

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
