//! Who a host is and whom it knows: keys, invites, vouchers, and the state files that hold them.
//!
//! - [`identity`] has a host's key pair and the keys of others.
//! - [`invite`] is the text with which one client enrols; [`voucher`] lists the keys of a name.
//! - [`store`] keeps keys, clients, pins and vouchers in the state directory, by way of files that
//!   are replaced whole.
//!
//! Two ways through: `store/gateway.rs` keeps the invites of a gateway and admits who enrols with
//! one, `invite/codec.rs` has the invite's bytes, and at the client `store/client.rs` keeps the
//! gateway. A state file is read and written by `store/json_file.rs` over `files.rs`, since several
//! processes change it; `store/later_fields.rs` keeps what a later version wrote. The book of hosts
//! known by name is `store/names.rs`, keys of discovered servers are in `store/pins.rs`.
//!
//! To add a state file: its name in `store/state_file.rs`, a file in `store/`, a row in
//! `docs/operations.md` (tests compare both). `store/tests.rs` then fails each step of writing it
//! (`files/faults.rs`), and `end_to_end/state_files.rs` of `hawser-cli` damages it. To add to what
//! an owner vouches for, begin at `voucher.rs`.

mod files;
pub mod host_port;
pub mod identity;
pub mod invite;
pub mod store;
pub mod unix_time;
pub mod voucher;

pub use files::{FileError, read_bounded, replace_if_changed};
