//! Packets of a TUN device and of a peer: headers, marks, answers.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hawser_tunnel::fuzzing::fuzz_packet(data);
});
