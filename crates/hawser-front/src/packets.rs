//! Packet mode: IP packets of TUN devices, beside streams of a session.
//!
//! At the client, [`PacketTunnel`] carries the packets of one device. At the gateway, the
//! [`Exchange`] has one device for the packets of all clients, and an address for each of them.

mod exchange;
mod pool;
mod question;
mod terms;
mod tunnel;

pub use exchange::{Exchange, PacketCounters, PacketStats};
pub use pool::{AddressPool, Inner, PoolError};
pub(crate) use terms::OPENING_PACKETS;
pub use terms::{Terms, Wish};
pub use tunnel::{PacketTunnel, TunnelError};

/// Largest inner packet: over IPv4 and a link of 1500 bytes, it travels in one outer packet. It is
/// WireGuard's size, so programs have met it.
pub const MTU: u16 = 1420;
/// Packets that a device may hand over at once.
const MAX_PACKET: usize = 65_535;
