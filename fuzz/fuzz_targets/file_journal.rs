//! The journal of a half-received file.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hawser_file::fuzzing::journal(data);
});
