//! Replays the fuzzers' corpora.

use std::fs;
use std::path::Path;

use hawser_keys::invite::Invite;
use hawser_keys::voucher::Voucher;

use crate::fuzzing;
use crate::gateway::{Whose, judge};

#[test]
fn every_invite_of_the_corpus_that_is_read_is_the_same_when_written_and_read_again() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/invite");
    let (mut files, mut good) = (0, 0);
    for input in fs::read_dir(&folder).unwrap() {
        let bytes = fs::read(input.unwrap().path()).unwrap();
        files += 1;
        // Cut at any byte, as when only a part was copied.
        for end in 0..=bytes.len() {
            let text = String::from_utf8_lossy(&bytes[..end]);
            if let Ok(invite) = text.parse::<Invite>() {
                let again = invite.to_line().parse::<Invite>().unwrap();
                assert!(invite == again);
                good += 1;
            }
        }
    }
    assert!(files > 0, "the corpus is gone: {}", folder.display());
    assert!(good > 0, "none of the corpus is an invite");
}

/// Calls `entry` with each file of a corpus, cut at any byte; returns the files.
fn replay(target: &str, entry: fn(&[u8])) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let files = fs::read_dir(folder.join(target)).unwrap();
    let files: Vec<_> = files
        .map(|it| fs::read(it.unwrap().path()).unwrap())
        .collect();
    for bytes in &files {
        (0..=bytes.len()).for_each(|end| entry(&bytes[..end]));
    }
    files
}

#[test]
fn every_voucher_of_the_corpus_that_is_read_is_the_same_when_written_and_read_again() {
    let files = replay("voucher", fuzzing::fuzz_voucher);
    let texts = files.iter().filter_map(|it| std::str::from_utf8(it).ok());
    let read = texts.filter(|text| text.parse::<Voucher>().is_ok()).count();
    assert!(read >= 3 && read < files.len(), "{read}");
}

#[test]
fn every_beginning_of_the_corpus_is_judged_the_same_however_it_comes() {
    let files = replay("first_words", fuzzing::fuzz_first_words);
    for whose in [Some(Whose::Gateway), Some(Whose::Service), None] {
        assert!(files.iter().any(|it| judge(it) == whose), "{whose:?}");
    }
}
