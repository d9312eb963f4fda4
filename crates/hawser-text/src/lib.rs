//! What terminals show: snapshots and reports of `hawser-control` as text, for the commands and for
//! `hawser top`. One file for each command, or for a part that several print; `table.rs` lays out
//! tables, and `figures.rs` writes numbers with their units.
//!
//! To add a column to a command's table, begin at the command's file; its test is beside it.
#![forbid(unsafe_code)]

mod connections;
mod directory;
mod event;
mod figures;
mod links;
mod packet_flows;
mod placed;
mod policy;
mod status;
mod streams;
mod table;
mod why;

pub use directory::registration_line;
pub use event::render_change;
pub use figures::{clock, size, span};
pub use links::{render_links, state_of_link};
pub use policy::render_policy;
pub use status::{STREAMS_SHOWN, kill_switch_line, render_status};
pub use streams::render_streams;
pub use table::printable;
pub use why::render_why;
