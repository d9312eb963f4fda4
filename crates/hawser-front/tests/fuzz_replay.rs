//! Replays the fuzzers' corpora: one folder of inputs for each entry point.

use std::fs;
use std::path::Path;

use hawser_front::fuzzing;

fn replay(target: &str, entry: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/corpus")
        .join(target);
    let mut count = 0;
    for input in fs::read_dir(&folder).unwrap() {
        let path = input.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        println!("{}", path.display());
        // Also every prefix, as from a connection that breaks off.
        for end in 0..=bytes.len() {
            entry(&bytes[..end]);
        }
        count += 1;
    }
    assert!(count > 0, "no inputs in {}", folder.display());
}

#[test]
fn destinations_replay() {
    replay("destination", fuzzing::fuzz_destination);
}

#[test]
fn socks5_replays() {
    replay("socks5", fuzzing::fuzz_socks5);
}

#[test]
fn socks5_datagrams_replay() {
    replay("socks5_datagram", fuzzing::fuzz_socks5_datagram);
}

#[test]
fn socks4_replays() {
    replay("socks4", fuzzing::fuzz_socks4);
}

#[test]
fn http_requests_replay() {
    replay("http_request", fuzzing::fuzz_http_request);
}

#[test]
fn http_responses_replay() {
    replay("http_response", fuzzing::fuzz_http_response);
}

#[test]
fn http_bodies_replay() {
    replay("http_body", fuzzing::fuzz_http_body);
}

#[test]
fn networks_replay() {
    replay("cidr", fuzzing::fuzz_cidr);
}
