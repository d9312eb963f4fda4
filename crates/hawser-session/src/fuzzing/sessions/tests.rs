//! Replays the fuzzer's scripts for two sessions, and random ones, with an eye on their memory.

use std::fs;
use std::panic;
use std::path::Path;

use proptest::prelude::*;

use super::{MAX_SESSIONS_MEMORY, fuzz_sessions};

/// Plays a script and checks how much memory it took at most.
fn play(name: &str, script: &[u8]) {
    let mut outcome = Ok(());
    // A panic must not leave the counter counting.
    let counted = || outcome = panic::catch_unwind(|| fuzz_sessions(script));
    let used = allocation_counter::measure(counted).bytes_max;
    if let Err(panicked) = outcome {
        panic::resume_unwind(panicked);
    }
    assert!(used <= MAX_SESSIONS_MEMORY, "{name} takes {used} bytes");
}

#[test]
fn every_script_of_the_corpus_keeps_the_promises_of_sessions() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/sessions");
    let mut files = 0;
    for input in fs::read_dir(&folder).unwrap() {
        let path = input.unwrap().path();
        play(&path.display().to_string(), &fs::read(&path).unwrap());
        files += 1;
    }
    assert!(files > 0, "the corpus is gone: {}", folder.display());
}

/// A step that no hostile peer makes.
fn honest_step() -> impl Strategy<Value = Vec<u8>> {
    let ops = prop::sample::select((0u8..29).collect::<Vec<_>>());
    let arguments = proptest::collection::vec(any::<u8>(), 4);
    (ops, any::<bool>(), arguments).prop_map(|(op, by_gateway, mut arguments)| {
        // Metadata, which begins with its length.
        if op < 2 {
            arguments.truncate(1);
            arguments[0] %= 1;
        }
        arguments.insert(0, op | u8::from(by_gateway) << 7);
        arguments
    })
}

proptest! {
    #[test]
    fn whatever_honest_sessions_do_their_promises_hold(
        how in any::<[u8; 2]>(),
        steps in proptest::collection::vec(honest_step(), 0..80),
    ) {
        play("a script", &[&how[..], &steps.concat()].concat());
    }

    #[test]
    fn no_bytes_break_the_promises(script in proptest::collection::vec(any::<u8>(), 0..600)) {
        play("a script", &script);
    }
}
