//! Destinations that run Hawser themselves: those that are found, and those that are known by name.
//!
//! A connection begins over one link, whatever its destination is. Beside it the destination's
//! reserved port is probed: where a peer answers that this machine has enrolled with, and proves
//! its key, later connections to that address go to it over a session, over all links. Nothing
//! waits for a probe. What fails over a session goes over a link as if there were no peer, until
//! the peer has carried a connection ([`HeldPeers`]).
//!
//! Hosts that are known by name are another matter ([`NamedPeers`]): their names lead to them, over
//! a session, or nowhere.
//!
//! Source: DBAS §II.A, the detection of the mode; MMS §II.B, sessions by SIP.

mod book;
mod cache;
mod discovered;
mod finder;
mod held;
mod meeting;
mod named;
mod names;
mod offers;
mod peers;
mod pool;
mod punching;
mod remote;
mod reserved;
mod sessions;
mod settings;
mod vouched;

pub use book::Book;
pub use discovered::{
    BondAnswer, DialDiscovered, Discovered, DiscoveredServers, DiscoverySettings, FoundServer,
    Handshakes, NotBonded, Problem,
};
pub use finder::PeerFinder;
pub use held::{HeldPeers, Passed};
pub use meeting::ThroughGateway;
pub use named::{
    DialByName, GatewayToMeet, NamedPeers, NamedPeersSettings, StartClient, StartRelayed,
};
pub use offers::Offers;
pub use peers::Peers;
pub use remote::Remote;
pub use reserved::ReservedNames;
pub use sessions::{PeerSessions, Sessions};
pub use settings::PeerSettings;
pub use vouched::{
    DialVouched, StartVouched, VouchedName, VouchedServers, VouchedSettings, VouchedWay,
};
