//! What the driver of a session decides about its channels, without I/O.
//!
//! A driver owns sockets, tasks and clocks. This crate holds the decisions that it takes with them,
//! so that `hawser-net` and the simulator run the same code:
//!
//! - [`keeper`]: which channels a link lacks, when to try for them, which ones to drop;
//! - [`tcp_writer`]: what the writer of a TCP channel does next;
//! - [`association`]: how an association carries a channel of a session;
//! - [`further`]: connections that a gateway begins, and to where;
//! - [`Allowance`]: how often a peer may have something costly begun;
//! - [`BackOff`]: pauses between attempts to begin a session.
#![forbid(unsafe_code)]

mod allowance;
pub mod association;
mod back_off;
pub mod further;
pub mod keeper;
pub mod tcp_writer;

use std::time::Duration;

pub use allowance::Allowance;
pub use back_off::BackOff;

/// Interval between two samples of a channel that is being written to.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(10);
