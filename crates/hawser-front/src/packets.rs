//! Packet mode: transport of IP packets between TUN devices, beside streams of a session.
//!
//! At the client, [`PacketTunnel`] forwards the packets of one device. At the gateway, the
//! [`Exchange`] has one device for the packets of all clients, and gives each client an address.

mod answers;
mod exchange;
mod fit;
mod inbound;
mod pool;
pub(crate) mod question;
mod terms;
mod tunnel;

pub use exchange::{Exchange, PacketCounters, PacketStats};
pub use fit::{Unfit, check_apart};
pub use inbound::InboundFlows;
pub use pool::{AddressPool, Inner, PoolError};
pub use terms::{HostNetworks, Terms, Wish};
pub use tunnel::{PacketTunnel, TunnelError};

/// Size of the largest inner packet, in bytes. Such a packet fits one outer packet over IPv4 and a
/// link of 1500 bytes. WireGuard uses the same size, so programs are used to it.
pub const MTU: u16 = 1420;
