//! Entry points for fuzzers: each takes any bytes and must return, in bounded memory.

mod contents;
mod forged;
mod sealed_datagrams;
mod sessions;
mod wire;

pub use sealed_datagrams::fuzz_datagrams;
pub use sessions::{MAX_SESSIONS_MEMORY, fuzz_sessions};
