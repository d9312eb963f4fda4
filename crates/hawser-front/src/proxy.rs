//! One port for SOCKS5 (datagrams too), SOCKS4, SOCKS4a, HTTP CONNECT and plain HTTP proxying.
//!
//! The first byte of a connection tells the protocol. Names are given to the dialer unresolved, and
//! a client is told of success only after the destination has accepted. The parsers do no I/O and
//! know no connection ([`socks5`], [`socks4`], [`http`]); the servers of connections parse nothing.

mod config;
mod context;
mod credentials;
mod detect;
mod dispatch;
mod exchange;
mod guesses;
pub mod http;
mod http_server;
mod intake;
mod parse;
mod server;
pub mod socks4;
pub mod socks5;
mod socks_server;
mod stats;
mod udp_associate;

pub use config::{DEFAULT_LISTEN, DEFAULT_MAX_ASSOCIATIONS, DEFAULT_MAX_CONNECTIONS, ProxyConfig};
pub(crate) use context::{Context, Guarded};
pub use credentials::{Credentials, CredentialsError};
pub use detect::Protocol;
pub use parse::{Malformed, Parse};
pub(crate) use server::accept_all;
pub use server::{ProxyError, ProxyServer};
pub use stats::{ProxyCounters, ProxyStats};
