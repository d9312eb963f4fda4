//! SIP messages in datagrams and in streams: both find the same.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hawser_sip::fuzzing::fuzz_message(data);
});
