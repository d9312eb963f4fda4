//! Types shared by all crates of Hawser: instants, rates, byte counts and identifiers.
//!
//! Units live in types, so that a rate can never be added to a size and an offset never compared
//! with a count. Nothing in here does I/O or reads a clock.
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
