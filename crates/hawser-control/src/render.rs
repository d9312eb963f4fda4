//! Snapshots and reports as text for terminals, one file for each command that prints them.

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
pub use links::render_links;
pub use policy::render_policy;
pub use status::{STREAMS_SHOWN, kill_switch_line, render_status};
pub use streams::render_streams;
pub use table::printable;
pub use why::render_why;
