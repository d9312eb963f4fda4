//! The far end: the port that clients connect to.

pub(crate) mod directory;
pub mod door;
pub mod far_end;
pub mod found;
pub(crate) mod front_door;
mod front_handshakes;
mod front_ports;
pub(crate) mod own;
pub(crate) mod packets;
pub(crate) mod reasons;
pub(crate) mod views;
