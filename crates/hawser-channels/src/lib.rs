//! Decisions of a session's driver about its channels, without I/O.
//!
//! A driver owns sockets, tasks and clocks. This crate holds its decisions, so that `hawser-net`
//! and the simulator run the same code:
//!
//! - [`keeper`]: which channels a link lacks, when to open them, which ones to drop;
//! - [`tcp_writer`]: next step of the writer of a TCP channel;
//! - [`association`]: carrying a channel of a session over an association;
//! - [`further`]: channels that a gateway opens, and to which addresses;
//! - [`Allowance`]: limit of costly operations that a peer may cause;
//! - [`BackOff`]: growing pauses between attempts to open a session.
//!
//! Two ways through: the writing task of a TCP channel calls `tcp_writer.rs`, which tells the
//! session what the kernel says, takes a record from it, and answers whether to write, wait or
//! drain. Over an association `association/writer.rs` does that, `association/message.rs` turns
//! records into messages, `association/sample.rs` tells the session about the paths, and
//! `association/tunnel.rs` carries packet mode beside them.
//!
//! Who executes them: `driver/` and `client/keeper.rs` of `hawser-net`, `bond/` of `hawser-sim`.
//!
//! To change the pause before a channel is tried again, begin at `keeper.rs` (test:
//! `keeper/tests.rs`); when a gateway connects to a client, at `further.rs` (test:
//! `further/tests.rs`).
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
