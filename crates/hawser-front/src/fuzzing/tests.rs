//! Replays the corpora that the fuzzers keep and extend.

use hawser_skip::replay;

use crate::fuzzing;

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
