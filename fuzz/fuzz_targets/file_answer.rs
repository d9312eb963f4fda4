//! The answer to an offer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hawser_file::fuzzing::answer(data);
});
