//! URIs, digest, documents and descriptions of SIP: a written part parses as the same.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hawser_sip::fuzzing::fuzz_parts(data);
});
