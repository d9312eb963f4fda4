//! The commands that send requests to the running daemon, one file each.

pub(crate) mod ask;
pub(crate) mod events;
pub(crate) mod kill_switch;
pub(crate) mod link;
pub(crate) mod links;
pub(crate) mod policy;
pub(crate) mod status;
pub(crate) mod streams;
pub(crate) mod top;
pub(crate) mod upgrade;
pub(crate) mod web;
pub(crate) mod why;
