//! Both ends of a tunnel with a network that loses and reorders, in bounded memory.
#![no_main]

use hawser_tunnel::fuzzing::{MAX_PAIR_MEMORY, fuzz_pair};

libfuzzer_sys::fuzz_target!(|script: &[u8]| {
    let used = allocation_counter::measure(|| fuzz_pair(script)).bytes_max;
    assert!(used <= MAX_PAIR_MEMORY, "{used} bytes are used at once");
});
