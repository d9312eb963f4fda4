//! Bonded byte streams over every link of a machine: the library to embed.
//!
//! An [`Endpoint`] is a host with a key of its own. One that [listens](Endpoint::listen) hands out
//! invites; one that [connects](Endpoint::connect) with an invite gets a [`Connection`], which uses
//! every link of the machine at once and outlives any of them. On it as many [`BondStream`]s as
//! wanted are opened, each of which behaves as a TCP connection does: [`tokio::io::AsyncRead`],
//! [`tokio::io::AsyncWrite`], and [`tokio::io::split`] works.
//!
//! Both ends prove their keys, and everything is encrypted unless both say otherwise.
//!
//! # A server
//!
//! ```no_run
#![doc = include_str!("../examples/echo_server.rs")]
//! ```
//!
//! # Its client
//!
//! ```no_run
#![doc = include_str!("../examples/echo_client.rs")]
//! ```
//!
//! Both differ from their TCP versions, `examples/echo_server_tcp.rs` and
//! `examples/echo_client_tcp.rs`, by a few lines. To try them:
//!
//! ```sh
//! cargo run -p hawser --example echo_server              # prints an invite
//! cargo run -p hawser --example echo_client -- 'hawser://…'
//! ```
//!
//! # Streams the other way
//!
//! A listener can open streams too, to a peer that is connected, and the peer accepts them:
//!
//! ```no_run
//! # async fn example(
//! #     listener: hawser::BondListener,
//! #     key: hawser::PublicKey,
//! #     connection: hawser::Connection,
//! # ) -> Result<(), Box<dyn std::error::Error>> {
//! let outgoing = listener.open(&key)?; // at the listener
//! let incoming = connection.accept().await?; // at the peer
//! # Ok(())
//! # }
//! ```
//!
//! # Keys that last
//!
//! [`Endpoint::new`] makes a key that is gone with the process. With a
//! [state directory](EndpointBuilder::state_dir) the key, the peers that were enrolled and the
//! gateways that this host was enrolled with are still known after a restart, so that an invite is
//! needed once only:
//!
//! ```no_run
//! # async fn example(invite: hawser::Invite) -> Result<(), Box<dyn std::error::Error>> {
//! let endpoint = hawser::Endpoint::builder().state_dir("/var/lib/mine").build()?;
//! let connection = match endpoint.known_peers()?.first() {
//!     Some(peer) => endpoint.connect(peer).await?,
//!     None => endpoint.connect(&invite).await?,
//! };
//! let stream = connection.open().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Peers that may not know Hawser
//!
//! [`Endpoint::connect_or_tcp`] falls back to plain TCP where the peer does not speak Hawser. That
//! is a choice with a price: read there what it means for security.
#![forbid(unsafe_code)]

mod admission;
mod connection;
mod endpoint;
mod error;
mod fallback;
mod known;
mod listener;

pub use connection::Connection;
pub use endpoint::{Encryption, Endpoint, EndpointBuilder, PeerAddress};
pub use error::{ConnectError, EndpointError, FallbackError, ListenError};
pub use fallback::EitherStream;
pub use known::KnownKeysError;
pub use listener::{BondListener, PeerInfo};

pub use hawser_net::client::{ClientSnapshot, OpenStreamError};
pub use hawser_net::gateway::{AcceptLimits, GatewayCounters, OpenToClientError};
pub use hawser_net::host_port::HostPort;
pub use hawser_net::identity::{Identity, PublicKey};
pub use hawser_net::invite::Invite;
pub use hawser_net::stream::{BondStream, ResetByPeer};
pub use hawser_session::{SessionConfig, TransportChoice};
