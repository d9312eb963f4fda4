//! Files of the flight recorder.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok(recording) = hawser_session::recorder::Recording::parse(data) {
        recording.entries().for_each(drop);
    }
});
