//! Chunks of a file at any offset.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hawser_file::fuzzing::placement(data);
});
