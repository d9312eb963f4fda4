//! What a gateway does with the streams that its clients open: checks, connects, relays.

mod cidr;
mod client;
mod config;
mod datagrams;
mod fronted;
mod late;
mod lookups;
mod meeting;
mod policy;
mod proxy_header;
mod serve;
mod stats;

pub use crate::address::Refusal;
pub use crate::incoming::IncomingStream;
pub use cidr::{Cidr, CidrError};
pub use client::{ClientId, ClientLimits, LimitReason};
pub(crate) use client::{Clients, Permit};
pub use config::{DatagramOptions, GatewayConfig};
pub use fronted::{Fronted, Leads, Shown};
pub use meeting::{MeetingPlace, MeetingStats};
pub use policy::DestinationPolicy;
pub use serve::Gateway;
pub use stats::{GatewayCounters, GatewayStats};
