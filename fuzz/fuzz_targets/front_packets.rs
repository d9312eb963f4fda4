//! Beginnings of tunnels for packets, and questions to name servers among the packets.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hawser_front::fuzzing::fuzz_packets(data);
});
