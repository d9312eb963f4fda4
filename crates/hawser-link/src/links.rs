//! The machine's links: network interfaces, their usability, and every change of them.
//!
//! A link is identified by its interface index, never by its address: two modems may assign the
//! same one. Listing and following links need no privilege and work in any network namespace.

mod counters;
mod defaults;
mod dump;
mod local_routes;
mod monitor;
mod netlink;
mod own;
mod particular;
mod prefixes;
mod route;
#[cfg(test)]
mod tests;
mod wifi;

use std::io;
use std::time::Duration;

pub use counters::read_counters;
pub use defaults::{DefaultRouteMonitor, default_routes};
pub use dump::{is_own, list_links};
pub use hawser_types::link::{DefaultRoute, Link, LinkKind, Unusable, full_tunnel, usable};
pub use monitor::LinkMonitor;
pub use netlink::dump as ask_kernel;
pub use own::{OwnAddresses, OwnList};
pub use particular::{networks_on_links, particular_prefixes};
pub use prefixes::PrefixMonitor;
pub use route::Routes;
pub use route::has_route;
pub use wifi::follow_wifi_signals;

/// Why links cannot be listed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// No netlink socket could be opened.
    #[error("cannot open a netlink socket: {0}")]
    Socket(#[from] io::Error),
    /// The kernel has answered with an error.
    #[error("cannot list {what}: {reason}")]
    Dump {
        /// The requested list.
        what: &'static str,
        /// The kernel's answer.
        reason: String,
    },
    /// The kernel has not answered.
    #[error("the kernel has not listed its links within {after:?}")]
    TimedOut {
        /// Time waited.
        after: Duration,
    },
    /// The netlink socket has closed.
    #[error("the netlink socket has closed")]
    Closed,
}
