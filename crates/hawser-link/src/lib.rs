//! Links of this machine: interfaces and their routes, sockets that are bound to them, and their
//! name servers.
//!
//! - [`links`] follows the kernel's interfaces, addresses and routes; [`bind`] opens sockets on one
//!   of them; [`tcp_info`] reads what the kernel knows of a connection.
//! - [`names`] finds the name servers of each link and asks them. [`asker`] finds the process that
//!   made a connection.
//! - [`inherited`] has the listening sockets that another process has left.
//! - [`sys`] has the system calls without a safe wrapper, and all `unsafe` of this crate.
//!
//! Two ways through. A link: `links/netlink.rs` and `links/dump.rs` read the kernel,
//! `links/monitor.rs` follows changes, `links.rs` says which links are usable (`usable`); `bind.rs`
//! binds a socket to the interface by index. A name: `names.rs` asks the system (`names/system.rs`)
//! and, where that is slow, the servers of each link (`names/servers/files.rs`, `names/race.rs`,
//! `names/exchange.rs`).
//!
//! Where to begin: a socket option, `bind.rs` or `sys.rs`; the mark that a kill switch lets pass,
//! `bind/mark.rs`; flags of a TUN device, `sys.rs` (`make_tun`, `begin_tun_frames`); which name
//! servers a link has, `names/servers/files.rs`. Tests: `links/tests.rs`, `bind/tests.rs`,
//! `names/tests.rs`, some in network namespaces of `hawser-skip`.

pub mod asker;
pub mod bind;
pub mod inherited;
pub mod links;
pub mod names;
pub mod start_up_memory;
pub mod sys;
pub mod tcp_info;
