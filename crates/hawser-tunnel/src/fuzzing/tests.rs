//! Replays the fuzzers' corpora, and random input, with an eye on memory.

use std::fs;
use std::panic;
use std::path::Path;

use proptest::prelude::*;

use super::{MAX_PAIR_MEMORY, fuzz_frame, fuzz_packet, fuzz_pair};

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

/// Plays a script and checks how much memory it took at most.
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
fn every_packet_and_frame_of_the_corpora_is_read_without_a_panic() {
    replay("tunnel_packet", fuzz_packet);
    replay("tunnel_frame", fuzz_frame);
}

#[test]
fn every_script_of_the_corpus_keeps_the_promises_of_a_tunnel() {
    replay("tunnel_pair", play);
}

proptest! {
    #[test]
    fn no_script_makes_a_pair_break_its_promises(
        script in proptest::collection::vec(any::<u8>(), 0..1500),
    ) {
        play(&script);
    }

    #[test]
    fn no_bytes_make_a_frame_or_a_packet_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        fuzz_packet(&bytes);
        fuzz_frame(&bytes);
    }
}
