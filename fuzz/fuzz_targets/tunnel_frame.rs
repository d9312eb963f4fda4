//! Frames of a TUN device, split into packets and joined again.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hawser_tunnel::fuzzing::fuzz_frame(data);
});
