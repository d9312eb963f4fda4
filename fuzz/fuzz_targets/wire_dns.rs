//! Messages of the domain name system, as questions and as answers.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hawser_wire::fuzzing::fuzz_dns(data);
});
