//! The simulator: sessions over packet-level TCP, associations over datagrams, and modelled links,
//! in virtual time.
//!
//! The session code is the production code. Below it are a short model of the driver, and
//! connections that behave like those of Linux over links that behave like those of the lab. The
//! same scenario and seed give the same result, to the bit.
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
