//! A datagram of a SOCKS5 client.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hawser_front::fuzzing::fuzz_socks5_datagram(data);
});
