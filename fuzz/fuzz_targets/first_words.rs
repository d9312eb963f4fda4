//! The first bytes of a connection to a port that a service and the gateway share.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hawser_net::fuzzing::fuzz_first_words(data);
});
