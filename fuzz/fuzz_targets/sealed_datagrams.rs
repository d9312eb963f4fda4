//! Sealed datagrams, lost, repeated, reordered, altered and late.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hawser_session::fuzzing::fuzz_datagrams(data);
});
