//! Addresses of UDP sockets as hosts tell them to each other.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hawser_front::fuzzing::fuzz_udp_addresses(data);
});
