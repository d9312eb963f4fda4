//! The far end: the port that clients connect to.

pub(crate) mod directory;
pub(crate) mod door;
pub(crate) mod far_end;
pub(crate) mod found;
pub(crate) mod front_door;
mod front_handshakes;
mod front_ports;
pub(crate) mod own;
pub(crate) mod packets;
pub(crate) mod reasons;
pub(crate) mod views;
