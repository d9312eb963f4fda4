//! A SOCKS4 client.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hawser_front::fuzzing::fuzz_socks4(data);
});
