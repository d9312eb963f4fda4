//! A SIP server that gets arbitrary datagrams: bounds hold, and all state expires.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hawser_sip::fuzzing::fuzz_server(data);
});
