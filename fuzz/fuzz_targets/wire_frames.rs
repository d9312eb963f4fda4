//! The frames in the body of an opened record.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hawser_wire::fuzzing::fuzz_frames(data);
});
