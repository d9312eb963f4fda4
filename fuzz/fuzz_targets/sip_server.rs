//! A SIP server that gets any datagrams: bounds are kept, and everything ends.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hawser_sip::fuzzing::fuzz_server(data);
});
