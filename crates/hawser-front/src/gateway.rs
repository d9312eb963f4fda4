//! Streams that clients open at a gateway: it checks, connects and relays them.

mod cidr;
mod client;
mod client_streams;
mod config;
mod datagrams;
mod fronted;
mod late;
mod lookups;
mod measurement;
mod meeting;
mod policy;
mod proxy_header;
mod serve;
mod stats;

pub use crate::address::Refusal;
pub use crate::incoming::IncomingStream;
pub use cidr::{Cidr, CidrError};
pub use client::{ClientId, ClientLimits, LimitReason};
pub(crate) use client::{Clients, StreamSlot};
pub use client_streams::{ClientStreams, Reasons};
pub use config::{DatagramOptions, GatewayConfig};
pub use fronted::{Fronted, Leads, Shown};
pub use measurement::{MAX_SOURCE, noise};
pub use meeting::{MeetingPlace, MeetingStats};
pub use policy::DestinationPolicy;
pub use serve::Gateway;
pub use stats::{GatewayCounters, GatewayStats};
