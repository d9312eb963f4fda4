//! Replays the corpora that the fuzzers keep and extend.

use std::fs;
use std::path::Path;

use crate::fuzzing;

fn replay(target: &str, entry: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(target);
    let mut files = 0;
    for input in fs::read_dir(&folder).unwrap() {
        let bytes = fs::read(input.unwrap().path()).unwrap();
        // Also every prefix, as from a connection that breaks off.
        let step = (bytes.len() / MAX_CUTS).max(1);
        (0..bytes.len())
            .step_by(step)
            .for_each(|end| entry(&bytes[..end]));
        entry(&bytes);
        files += 1;
    }
    assert!(files > 0, "the corpus is gone: {}", folder.display());
}

#[test]
fn every_file_of_the_corpora_of_file_transfer_is_read_without_a_panic() {
    replay("file_answer", fuzzing::answer);
    replay("file_journal", fuzzing::journal);
    replay("file_name", fuzzing::name);
    replay("file_offer", fuzzing::offer);
    replay("file_placement", fuzzing::placement);
    replay("file_trailer", fuzzing::trailer);
}

/// Long inputs are not cut at every byte.
const MAX_CUTS: usize = 4096;
