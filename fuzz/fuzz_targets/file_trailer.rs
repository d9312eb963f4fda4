//! The trailer of a file.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hawser_file::fuzzing::trailer(data);
});
