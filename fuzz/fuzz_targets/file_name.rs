//! The name of a file.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hawser_front::file::fuzzing::name(data);
});
