//! A network as users write it.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hawser_front::fuzzing::fuzz_cidr(data);
});
