//! Two sessions, their channels and applications, and hostile records, in bounded memory.
#![no_main]

use hawser_session::fuzzing::{MAX_SESSIONS_MEMORY, fuzz_sessions};

libfuzzer_sys::fuzz_target!(|script: &[u8]| {
    let used = allocation_counter::measure(|| fuzz_sessions(script)).bytes_max;
    assert!(used <= MAX_SESSIONS_MEMORY, "{used} bytes are used at once");
});
