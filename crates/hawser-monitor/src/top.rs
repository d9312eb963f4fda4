//! `hawser top`: shows and controls a daemon on a terminal.
//!
//! `State` is the program without terminal and socket: it takes keys and answers, and produces
//! requests and a picture. [`run()`] connects it to both.

mod asking;
mod cursor;
mod daemon;
mod events;
mod figures;
mod filter;
mod flows;
mod help;
mod input;
mod keys;
mod layout;
mod links;
mod look;
mod policy;
mod run;
mod screen;
mod seen;
mod settings;
mod state;
mod table;
mod terminal;
#[cfg(test)]
mod tests;
mod traffic;
mod why;

pub use daemon::{Ask, NoAnswer};
pub use look::Look;
pub use run::run;
