//! A voucher as its owner publishes it.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hawser_net::fuzzing::fuzz_voucher(data);
});
