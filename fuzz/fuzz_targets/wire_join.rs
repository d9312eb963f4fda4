//! The first bytes of a connection that wants to join.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hawser_wire::fuzzing::fuzz_join(data);
});
