//! Destinations that run Hawser themselves.
//!
//! A connection begins over one link, whatever its destination is. Beside it the destination's
//! reserved port is probed: where a peer answers that this machine has enrolled with, and proves
//! its key, later connections to that address go to it over a session, over all links. Nothing
//! waits for a probe, and what fails over a session goes over a link as if there were no peer.
//!
//! Source: DBAS §II.A, the detection of the mode.

mod cache;
mod finder;
mod names;
mod peers;
mod remote;
mod sessions;
mod settings;

pub use finder::PeerFinder;
pub use peers::Peers;
pub use remote::Remote;
pub use sessions::{PeerSessions, Sessions};
pub use settings::PeerSettings;
