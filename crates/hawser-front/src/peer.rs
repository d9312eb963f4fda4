//! Destinations that run Hawser themselves: peers that probes find, and hosts known by name.
//!
//! The first connection to a destination goes over one link. In parallel, Hawser probes the
//! destination's reserved port. If a peer that this machine has enrolled with answers and proves
//! its key, later connections to that address go over a session, over all links. No connection
//! waits for a probe. A connection that fails over a session falls back to a link, until the peer
//! has carried a connection ([`HeldPeers`]).
//!
//! A connection to the name of a host that is known by name ([`NamedPeers`]) goes over a session
//! with that host, or fails.
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
