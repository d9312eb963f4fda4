//! The TCP option of a handshake.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hawser_wire::fuzzing::fuzz_syn_option(data);
});
