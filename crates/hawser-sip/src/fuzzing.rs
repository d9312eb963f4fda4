//! Entry points for fuzzers: each takes any bytes and must return, in bounded memory.

mod message;
mod parts;
mod server;

pub use message::fuzz_message;
pub use parts::fuzz_parts;
pub use server::fuzz_server;

/// More memory than any of them takes at once.
pub const MAX_MEMORY: u64 = 8 << 20;
