//! Two hosts with an association, the network between them, and an attacker, in bounded memory.
#![no_main]

use hawser_sctp::fuzzing::{MAX_PAIR_MEMORY, fuzz_pair};

libfuzzer_sys::fuzz_target!(|script: &[u8]| {
    let used = allocation_counter::measure(|| fuzz_pair(script)).bytes_max;
    assert!(used <= MAX_PAIR_MEMORY, "{used} bytes are used at once");
});
