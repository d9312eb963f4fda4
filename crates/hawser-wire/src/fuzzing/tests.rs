//! Replays the fuzzers' corpora.

use std::fs;
use std::path::Path;

use super::{
    fuzz_commands, fuzz_dns, fuzz_frames, fuzz_join, fuzz_sctp, fuzz_syn_option, fuzz_tunnel,
};

fn replay(target: &str, entry: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(target);
    let mut files = 0;
    for input in fs::read_dir(&folder).unwrap() {
        let bytes = fs::read(input.unwrap().path()).unwrap();
        // Also the prefixes that an interrupted connection would leave.
        (0..=bytes.len()).for_each(|end| entry(&bytes[..end]));
        files += 1;
    }
    assert!(files > 0, "the corpus is gone: {}", folder.display());
}

#[test]
fn every_file_of_the_corpus_of_frames_is_read_without_a_panic() {
    replay("wire_frames", fuzz_frames);
}

#[test]
fn every_file_of_the_corpus_of_commands_is_read_without_a_panic() {
    replay("wire_commands", fuzz_commands);
}

#[test]
fn every_file_of_the_corpus_of_joins_is_read_without_a_panic() {
    replay("wire_join", fuzz_join);
}

#[test]
fn every_file_of_the_corpus_of_tunnels_is_read_without_a_panic() {
    replay("wire_tunnel", fuzz_tunnel);
}

#[test]
fn every_file_of_the_corpus_of_sctp_is_read_without_a_panic() {
    replay("wire_sctp", fuzz_sctp);
}

#[test]
fn every_file_of_the_corpus_of_dns_is_read_without_a_panic() {
    replay("wire_dns", fuzz_dns);
}

#[test]
fn every_file_of_the_corpus_of_tcp_options_is_read_without_a_panic() {
    replay("wire_syn_option", fuzz_syn_option);
}
