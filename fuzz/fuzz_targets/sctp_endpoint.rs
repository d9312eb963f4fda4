//! SCTP packets from unknown hosts and from a peer, one after the other.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hawser_sctp::fuzzing::fuzz_endpoint(data);
});
