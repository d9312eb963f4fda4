//! What a gateway does with the streams that its clients open: checks, connects, relays.

mod address;
mod cidr;
mod client;
mod datagrams;
mod policy;
mod serve;
mod stats;

pub use address::Refusal;
pub use cidr::{Cidr, CidrError};
pub use client::{ClientId, ClientLimits, LimitReason};
pub use datagrams::DatagramOptions;
pub use policy::DestinationPolicy;
pub use serve::{Gateway, GatewayConfig, IncomingStream};
pub use stats::{GatewayCounters, GatewayStats};
