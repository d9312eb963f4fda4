//! URIs, digest, documents and descriptions of SIP: what is written is read.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hawser_sip::fuzzing::fuzz_parts(data);
});
