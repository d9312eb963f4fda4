//! Links of this machine: interfaces and their routes, sockets that are bound to them, and their
//! name servers.
//!
//! - [`links`] follows the kernel's interfaces, addresses and routes; [`bind`] opens sockets on one
//!   of them; [`tcp_info`] reads what the kernel knows of a connection.
//! - [`names`] finds the name servers of each link and asks them.
//! - [`inherited`] has the listening sockets that another process has left.
//! - [`sys`] is the only file of the I/O crates with `unsafe`.

pub mod asker;
pub mod bind;
pub mod inherited;
pub mod links;
pub mod names;
pub mod sys;
pub mod tcp_info;
