//! What Hawser changes in its host, and takes back: devices, routes, rules, forwarding.
//!
//! - [`tun`] makes the device of packet mode; [`lan`] routes the hosts of a network into it.
//! - [`kill_switch`], [`packet_exit`] and [`port_rules`] are nftables rules.
//! - [`modems`] and [`network_manager`] ask ModemManager and NetworkManager on the system bus.
//! - [`guard`] is the process that undoes all of that, however this one ends.

mod bus;
mod forwarding;
mod nft;
mod routing_rules;

pub mod foreign_source;
pub mod guard;
pub mod kill_switch;
pub mod lan;
pub mod modems;
pub mod network_manager;
pub mod packet_exit;
pub mod port_rules;
pub mod tun;

pub use bus::BusError;
pub use nft::NftError;
