//! Bonded byte streams over every link of a machine: the library to embed.
//!
//! An [`Endpoint`] is a host with a key of its own. A [listening](Endpoint::listen) endpoint issues
//! invites. An endpoint that [connects](Endpoint::connect) with an invite gets a [`Connection`],
//! which uses every link of the machine at once and survives the loss of any of them. Both sides
//! open [`BondStream`]s on it, each of which behaves as a TCP connection does:
//! [`tokio::io::AsyncRead`] and [`tokio::io::AsyncWrite`]. Both ends prove their keys, and all data
//! is encrypted unless both ends turn that off.
//!
//! ```
//! use std::time::Duration;
//!
//! use hawser::Endpoint;
//! use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let listener = Endpoint::new()?.listen("127.0.0.1:0").await?;
//! let invite = listener.invite(Duration::from_secs(60))?;
//!
//! // The invite is text, and travels to the other host by other means.
//! let connection = Endpoint::new()?.connect(&invite).await?;
//! let mut stream = connection.open().await?;
//! stream.write_all(b"hello").await?;
//! stream.shutdown().await?;
//!
//! let (mut there, _peer) = listener.accept().await?;
//! let mut heard = String::new();
//! there.read_to_string(&mut heard).await?;
//! assert_eq!(heard, "hello");
//! # Ok(())
//! # }
//! ```
//!
//! # Types
//!
//! | type | purpose |
//! |---|---|
//! | [`Endpoint`], [`EndpointBuilder`] | a host with its key: listens, connects, or both |
//! | [`BondListener`], [`PeerInfo`] | takes streams or connections of peers, and invites them |
//! | [`Connection`] | one peer over every link: opens and accepts streams, reports its end |
//! | [`BondStream`] | a two-way byte stream, with datagrams beside it |
//! | [`SendStream`], [`RecvStream`], [`Chunk`] | its halves, with owners and ends of their own |
//! | [`EitherStream`] | bonded, or plain TCP where the peer does not know Hawser |
//! | [`Invite`], [`PeerAddress`], [`HostPort`] | addresses of a peer, and admission by it |
//! | [`PublicKey`], [`Identity`] | a peer's key, and a host's own |
//! | [`SessionConfig`], [`Encryption`], [`AcceptLimits`] | configuration |
//! | [`TransportChoice`], [`SctpPaths`] | transport of data |
//! | [`ConnectionStats`], [`PathStats`], [`ChannelStats`], [`StreamStats`] | measurements |
//! | [`ConnectError`], [`ConnectionError`] | why a connection could not be made, or ended |
//! | [`ReadError`], [`WriteError`], [`SendDatagramError`] | why a stream fails, with codes |
//!
//! # A server and its client
//!
//! ```no_run
#![doc = include_str!("../examples/echo_server.rs")]
//! ```
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
//! The other examples run both ends by themselves:
//!
//! | example | shows |
//! |---|---|
//! | `connections` | connections at the listening side, streams both ways, a close with a reason |
//! | `halves` | halves of a stream with owners of their own, a stop and a reset with a code |
//! | `datagrams` | datagrams beside a stream |
//! | `unordered` | reading bytes in order of arrival, with their offsets |
//! | `statistics` | paths, channels and streams of a connection |
//! | `fallback` | plain TCP where the peer does not know Hawser |
//!
//! # Connections
//!
//! [`Endpoint::connect`] and [`BondListener::accept_connection`] return the two ends of a
//! connection. Its handles are clones of one another. It ends when either side
//! [closes](Connection::close) it, when the peer no longer admits this host, or when no link has
//! led to the peer for [`survive`](SessionConfig::survive), 60 s by default; [`Connection::closed`]
//! returns the reason. No connection reconnects by itself: that is the program's decision.
//!
//! # Cancellation
//!
//! Every async function that reads, accepts or waits can be dropped and called again without loss:
//! `accept`, `accept_connection`, `read_chunk`, `write_bytes`, `read_datagram`, `closed`,
//! `stopped`, `acknowledged`. The exceptions are those of tokio's extension traits (`write_all`,
//! `read_exact`, `read_to_end`), which forget their progress, and [`Endpoint::connect`], which
//! starts again; the same invite works again.
//!
//! # Persistent keys
//!
//! [`Endpoint::new`] makes a key that is lost when the process ends. With a [state
//! directory](EndpointBuilder::state_dir) the key, the peers that were enrolled and the gateways
//! that this host was enrolled with are still known after a restart, so an invite is needed only
//! once:
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
//! [`Endpoint::connect_or_tcp`] falls back to plain TCP if the peer does not speak Hawser. The
//! fallback weakens security: read that function's documentation.
//!
//! # Inside
//!
//! For changes to this crate: `endpoint.rs` (who this host is) → `connection.rs` over a client of
//! `hawser-net`, or `listener.rs` over its gateway, with `admission.rs` (who is let in). The
//! streams are those of `hawser-net`. `known.rs` keeps the keys that peers proved at the first
//! contact, `following.rs` follows the machine's links, `fallback.rs` is plain TCP, `stats.rs` has
//! the measurements. A new public item begins in its file and in the list of exports below;
//! `tests/api/main.rs` compares the interface with `api.txt` (`cargo xtask api --bless`), and an
//! example in `examples/` is run by `tests/examples.rs`.
#![forbid(unsafe_code)]

mod admission;
mod connection;
mod endpoint;
mod error;
mod fallback;
mod following;
mod known;
mod listener;
mod stats;

pub use connection::Connection;
pub use endpoint::{Encryption, Endpoint, EndpointBuilder, PeerAddress};
pub use error::{AcceptError, ConnectError, EndpointError, FallbackError, ListenError};
pub use fallback::EitherStream;
pub use known::KnownKeysError;
pub use listener::{BondListener, PeerInfo};
pub use stats::{ChannelStats, ConnectionStats, PathStats, StreamStats};

// Streams.
#[doc(inline)]
pub use hawser_net::stream::{
    BondStream, Chunk, ReadError, RecvStream, RejoinError, ResetByPeer, SendDatagramError,
    SendStream, StoppedByPeer, WriteError,
};
#[doc(inline)]
pub use hawser_wire::MAX_DATAGRAM;

// Peers: who and where they are.
#[doc(inline)]
pub use hawser_keys::host_port::{HostPort, ParseHostPortError};
#[doc(inline)]
pub use hawser_keys::identity::{BadSignature, Identity, IdentityError, ParseKeyError, PublicKey};
#[doc(inline)]
pub use hawser_keys::invite::{Invite, InviteError};
#[doc(inline)]
pub use hawser_keys::unix_time::UnixTime;

// Configuration.
#[doc(inline)]
pub use hawser_net::gateway::{AcceptLimits, GatewayCounters};
#[doc(inline)]
pub use hawser_sched::chunk::ChunkPolicy;
#[doc(inline)]
pub use hawser_session::{
    ChunkSize, SctpPaths, SessionConfig, Spread, TransportChoice, UnknownSctpPaths,
    UnknownTransport,
};

// Units and numbers.
#[doc(inline)]
pub use hawser_session::Transport;
#[doc(inline)]
pub use hawser_types::{
    ByteCount, ChannelId, Host, HostError, HostName, LinkIndex, Rate, StreamId, UnitError,
};

// Errors.
#[doc(inline)]
pub use hawser_keys::FileError;
#[doc(inline)]
pub use hawser_keys::store::StoreError;
#[doc(inline)]
pub use hawser_link::links::LinkError;
#[doc(inline)]
pub use hawser_net::client::OpenStreamError;
#[doc(inline)]
pub use hawser_net::gateway::OpenToClientError;
#[doc(inline)]
pub use hawser_net::session::ConnectionError;
#[doc(inline)]
pub use hawser_seal::TlsError;
#[doc(inline)]
pub use hawser_session::OpenError;
