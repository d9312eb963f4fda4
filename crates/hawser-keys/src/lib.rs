//! Who a host is and whom it knows: keys, invites, vouchers, and the state files that hold them.
//!
//! - [`identity`] has a host's key pair and the keys of others.
//! - [`invite`] is the text with which one client enrols; [`voucher`] lists the keys of a name.
//! - [`store`] keeps keys, clients, pins and vouchers in the state directory, by way of files that
//!   are replaced whole.

mod files;
pub mod host_port;
pub mod identity;
pub mod invite;
pub mod store;
pub mod unix_time;
pub mod voucher;

pub use files::{FileError, read_bounded, replace_if_changed};
