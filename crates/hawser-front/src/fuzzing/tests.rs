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
fn every_file_of_the_corpora_of_the_proxy_port_is_read_without_a_panic() {
    replay("front_cidr", fuzzing::fuzz_cidr);
    replay("front_packets", fuzzing::fuzz_packets);
    replay("front_destination", fuzzing::fuzz_destination);
    replay("front_socks4", fuzzing::fuzz_socks4);
    replay("front_socks5", fuzzing::fuzz_socks5);
    replay("front_socks5_datagram", fuzzing::fuzz_socks5_datagram);
    replay("front_http_request", fuzzing::fuzz_http_request);
    replay("front_http_response", fuzzing::fuzz_http_response);
    replay("front_http_body", fuzzing::fuzz_http_body);
    replay("front_udp_addresses", fuzzing::fuzz_udp_addresses);
}

/// Long inputs are not cut at every byte.
const MAX_CUTS: usize = 4096;
