//! A hostile peer: it speaks the real protocol, proves a key, and then misbehaves by script.
//!
//! Handshake, keys, seals and encodings are those of the product; the script chooses only the
//! messages and their times. A [`script::Script`] is data: a list of [`step::Step`]s and conditions
//! that must hold while the peer performs them. [`trial::run`] starts the real program, and an
//! honest client beside the hostile one. It performs a script and returns an [`outcome::Outcome`]:
//! memory, descriptors, the honest client's results, the end of the session.
//!
//! The way through a trial: `trial.rs` → `trial/against_gateway.rs` or `trial/against_client.rs` →
//! `program.rs` (the program under test), `network.rs`, `honest.rs` and `visitor.rs` (honest
//! traffic) → `performer.rs` (steps) → `session.rs`, `channel.rs`, `datagrams.rs` (what is sent
//! under a seal) → `meter.rs` (memory over time).
//!
//! To add a misbehaviour: a script in the file of its subject in `scripts/`, and a step in
//! `step.rs` only if none of the present ones does. `sent.rs` asks for a script for each number of
//! the protocol, with an example of each message in `samples.rs`; `tests/scripts.rs` performs all
//! of them.
//!
//! For tests and the lab only; no product crate depends on this one.
#![forbid(unsafe_code)]

pub mod outcome;
pub mod script;
pub mod scripts;
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
#[cfg(test)]
mod sent;
mod session;
mod visitor;

pub use error::HostileError;
