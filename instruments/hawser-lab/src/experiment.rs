//! Code that all experiments share: their options, the locations of their logs, their reports.

mod arguments;
mod common;
mod directions;
mod findings;
mod run_folder;
mod scenarios;

pub use findings::Head;

pub(crate) use arguments::{Arguments, Single};
pub(crate) use common::{Common, Tested, begin};
pub(crate) use directions::Directions;
pub(crate) use findings::{Findings, named};
pub(crate) use scenarios::Several;
