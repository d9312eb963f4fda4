//! The command stream.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hawser_wire::fuzzing::fuzz_commands(data);
});
