//! Types shared by all crates of Hawser: instants, rates, byte counts and identifiers.
//!
//! Units live in types, so that a rate can never be added to a size and an offset never compared
//! with a count. Nothing in here does I/O or reads a clock.
//!
//! - Quantities: `instant.rs`, `rate.rs`, `count.rs`; `units.rs` reads them from text with a unit.
//! - Numbers that count different things: `id.rs`. Sets of numbers: `range_set.rs`, and
//!   `number_window.rs` for the recent numbers of a sequence.
//! - Links: `link.rs`, `link_use.rs`, `permission.rs`, `signal.rs`, `modem.rs`, `standby.rs`. A
//!   link is known by its [`LinkIndex`], since two modems may have the same address.
//! - Hosts: `host.rs`, `host_at.rs` (`alice@example.org`), `host_port.rs`, `address.rs`,
//!   `ports.rs`, and `customer.rs`, which says whose addresses count as one.
//! - What peers may cause: budgets in `charge.rs`. Causes that both ends of a session name on the
//!   wire: `cause.rs`.
//!
//! To add an identifier, begin at `id.rs`; a quantity with a unit in text, at `units.rs`. A type
//! that one crate needs stays in that crate.
#![forbid(unsafe_code)]

mod address;
mod cause;
mod charge;
mod count;
mod customer;
mod host;
mod host_at;
mod host_port;
mod id;
mod instant;
pub mod link;
mod link_use;
mod modem;
mod number_window;
mod permission;
mod ports;
mod range_set;
mod rate;
mod signal;
mod standby;
mod units;

pub use address::is_private;
pub use cause::{DialError, ResetCode, StreamReset};
pub use charge::{Budget, Charge, OverBudget};
pub use count::ByteCount;
pub use customer::{key_of, network_of, provider_of, source_of};
pub use host::{Host, HostError, HostName};
pub use host_at::{HostNameAt, HostNameAtError};
pub use host_port::{HostPortFault, HostPortParts, PortPart};
pub use id::{
    ChannelId, LinkIndex, PathId, RecordNumber, SegmentNumber, SessionId, StreamGroup, StreamId,
    StreamOffset,
};
pub use instant::Instant;
pub use link::{DefaultRoute, Link, LinkKind};
pub use link_use::LinkUse;
pub use modem::ModemState;
pub use number_window::NumberWindow;
pub use permission::{LimitedBy, Permission};
pub use ports::MIN_JOIN_PORT;
pub use range_set::RangeSet;
pub use rate::Rate;
pub use signal::{Radio, SignalState, SignalStrength, SignalStrengthError};
pub use standby::StandbyState;
pub use units::{UnitError, parse_duration, parse_percent};
