//! The state that a host keeps between runs: its state directory and the files in it.
//!
//! The files are JSON that an administrator can read. Each is replaced as a whole, under a lock,
//! after reading the changes of other processes: `hawser invite` and `hawser peers revoke` work
//! beside a running daemon, which notices by `reload_if_changed`. An invalid file is reported by
//! name and never overwritten; an invalid cache file is set aside. [`StateFile`] lists all files.
//! Fields of a later version are kept.

mod client;
mod dir;
mod error;
mod gateway;
mod json_file;
mod later_fields;
mod names;
mod order;
mod packet_addresses;
mod pins;
mod secret;
mod state_file;
mod tense;
#[cfg(test)]
mod tests;
mod vouchers;

pub use client::{ClientStore, EnrolledGateway};
pub use dir::StateDir;
pub use error::StoreError;
pub use gateway::{Enrolment, EnrolmentError, GatewayStore, KEEP_EXPIRED, Peer, PendingInvite};
pub use names::{NameError, NameStore, NamedPeer};
pub use order::OrderStore;
pub use packet_addresses::{OwnAddresses, PacketAddresses};
pub use pins::{Drawn, LONGEST_PIN, Pin, PinStore};
pub use state_file::{ASIDE, StateFile, WhenDamaged};
pub use vouchers::{KeptVoucher, VoucherStore};
