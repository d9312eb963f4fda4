//! `hawser top`: a daemon on a terminal, to look at and to steer.
//!
//! `State` is all of it but the terminal and the socket: it takes keys and answers, and gives
//! requests and a picture. [`run()`] moves those to and fro.

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
