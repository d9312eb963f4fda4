//! A hostile peer: it speaks the real protocol, proves a key, and then misbehaves by script.
//!
//! Handshake, keys, seals and encodings are those of the product; only what is said, and when, is
//! the script's. A [`script::Script`] is data: a row of [`step::Step`]s and what has to be true
//! while the peer performs them. [`trial::run`] starts the real program, and an honest client
//! beside the hostile one. It performs a script and gives an [`outcome::Outcome`]: memory,
//! descriptors, what the honest client got, how the session ended.
//!
//! For tests and the lab only; no product crate depends on this one.
#![forbid(unsafe_code)]

pub mod outcome;
pub mod script;
pub mod step;
pub mod trial;

mod channel;
mod client;
mod datagrams;
mod error;
mod frames;
mod gateway;
mod heard;
mod honest;
mod meter;
mod network;
mod performer;
mod place;
mod priority;
mod program;
mod samples;
mod scene;
mod scripts;
#[cfg(test)]
mod sent;
mod session;
mod visitor;

pub use error::HostileError;
