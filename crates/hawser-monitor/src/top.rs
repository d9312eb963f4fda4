//! `hawser top`: a daemon on a terminal, to look at and to steer.
//!
//! `State` is all of it but the terminal and the socket: it takes keys and answers, and gives
//! requests and a picture. [`run()`] moves those to and fro.

mod asking;
mod cursor;
mod events;
mod figures;
mod help;
mod input;
mod keys;
mod links;
mod look;
mod policy;
mod run;
mod screen;
mod seen;
mod state;
mod terminal;
#[cfg(test)]
mod tests;
mod traffic;
mod why;

pub use look::Look;
pub use run::{Ask, NoAnswer, run};
