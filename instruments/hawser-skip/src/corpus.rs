//! Replays the corpora that the fuzzers keep and extend.

use std::fs;
use std::path::Path;

/// Gives `entry` every file of a fuzzer's corpus, and every prefix of it, as from a connection that
/// breaks off. Of a long file, at most some thousands of prefixes.
///
/// # Panics
/// If there is no corpus with this name, or it is empty.
pub fn replay(name: &str, entry: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let folder = folder.join(name);
    let mut files = 0;
    for input in fs::read_dir(&folder).expect("the corpus can be read") {
        let path = input.expect("the corpus can be read").path();
        let bytes = fs::read(path).expect("the corpus can be read");
        let step = (bytes.len() / MAX_CUTS).max(1);
        (0..bytes.len())
            .step_by(step)
            .for_each(|end| entry(&bytes[..end]));
        entry(&bytes);
        files += 1;
    }
    assert!(files > 0, "the corpus is gone: {}", folder.display());
}

/// Long inputs are not cut at every byte.
const MAX_CUTS: usize = 4096;
