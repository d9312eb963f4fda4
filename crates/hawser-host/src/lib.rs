//! What Hawser changes in its host, and takes back: devices, routes, rules, forwarding.
//!
//! - [`tun`] makes the device of packet mode; [`lan`] routes the hosts of a network into it.
//! - [`kill_switch`], [`packet_exit`] and [`port_rules`] are nftables rules.
//! - [`modems`] and [`network_manager`] ask ModemManager and NetworkManager on the system bus.
//! - [`guard`] is the process that undoes all of that, however this one ends.
//!
//! Three ways through. A device: `tun.rs` (`create`) → `tun/set_up.rs` (addresses, MTU, routes) →
//! `tun/frames.rs` (many packets with one call); a program alone in a network gets it from
//! `tun/enclosure.rs`, a whole machine by the routes of `tun/routes.rs`. Hosts behind this machine:
//! `lan.rs` → `lan/rules.rs` and `lan/modes.rs` (connection rules as nftables chains). A gateway:
//! `packet_exit.rs` → `forwarding.rs`, and limits in `packet_exit/flows.rs`. Tables are loaded by
//! `nft.rs`.
//!
//! Where to begin: an option of the device, `tun/set_up.rs` ([`tun::TunAddresses`], filled in by
//! `commands/enclosed.rs` of `hawser-cli`, `proxy/packets.rs` and `gateway/packets.rs` of
//! `hawser-daemon`), or `sys.rs` of `hawser-link` for flags of the kernel (test:
//! `tun/frames/tests.rs`); what may leave past a kill switch, `kill_switch/rules.rs`; what is
//! routed for hosts, `lan/rules.rs` (test: `lan/tests.rs`). The real devices and rules are tested
//! in `tests/end_to_end/` of `hawser-cli`: `packets.rs`, `machine_packets.rs`, `lan.rs`,
//! `router.rs`, `kill_switch.rs`. `docs/design/packet-devices.md` and `docs/design/kill-switch.md`
//! explain the decisions.

mod bus;
mod forwarding;
mod measured;
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
