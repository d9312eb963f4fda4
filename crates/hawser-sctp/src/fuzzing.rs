//! Entry points for fuzzers: each takes any bytes and must return, in bounded memory.

mod contents;
mod endpoint;
mod network;
mod pair;

pub use endpoint::fuzz_endpoint;
pub use pair::{MAX_PAIR_MEMORY, fuzz_pair};

#[cfg(test)]
mod tests;
