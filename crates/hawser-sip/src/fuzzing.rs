//! Entry points for fuzzers: each takes any bytes and must return, in bounded memory.

mod message;
mod parts;
mod server;

pub use message::fuzz_message;
pub use parts::fuzz_parts;
pub use server::fuzz_server;

/// Upper bound of the memory that an entry point takes.
pub const MAX_MEMORY: u64 = 8 << 20;

#[cfg(test)]
mod tests;
