//! SIP messages in datagrams and in streams: both parse to the same message.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hawser_sip::fuzzing::fuzz_message(data);
});
