//! The simulator: sessions over packet-level TCP, associations over datagrams, and modelled links,
//! in virtual time.
//!
//! The session code is the production code. Below it are a short model of the driver, and
//! connections that behave like those of Linux over links that behave like those of the lab. The
//! same scenario and seed give the same result, to the bit. `docs/design/simulator.md` says what is
//! modelled and what is left out.
//!
//! - A transfer: `experiment.rs` → `bulk.rs` → `bond.rs` (two hosts, keepers and writers, by the
//!   decisions of `hawser-channels`) → `network.rs` (events, links) → `tcp.rs` (a connection's
//!   end).
//! - An association: `association.rs` and `association/fabric.rs`, or as a channel of a session
//!   `bond/association_channel.rs`. Packet mode: `packets.rs` with `packets/tunnel.rs`.
//! - Connections on single links: `connections.rs`; `connections/daemon.rs` asks the product's
//!   director.
//! - Searches: `hunt.rs` draws sets of links on which a promise may not hold; `replay.rs` puts
//!   recorded decisions to a policy.
//!
//! The program is `main.rs` with one file in `commands/` for each command. To add an experiment,
//! begin with a module here and a file in `commands/`. Tests in `tests/` compare whole runs with
//! committed tables: `tests/scenarios.rs`, `tests/association_tables.rs`, `tests/transports.rs`.
#![forbid(unsafe_code)]

pub mod against_mptcp;
mod arrivals;
pub mod association;
pub mod bond;
pub mod bulk;
pub mod connections;
pub mod dying;
pub mod experiment;
pub mod failover;
pub mod fairness;
pub mod hunt;
pub mod mptcp;
pub mod network;
pub mod objects;
pub mod packets;
pub mod plain;
mod queue;
pub mod quic_keys;
pub mod replay;
pub mod table;
pub mod tcp;
mod ticks;
pub mod transports;
