use std::io;

use hawser_keys::identity::{IdentityError, PublicKey};
use hawser_keys::invite::InviteError;
use hawser_keys::store::StoreError;
use hawser_link::links::LinkError;
use hawser_net::client::OpenStreamError;
use hawser_seal::TlsError;

use crate::known::KnownKeysError;

/// An endpoint can't be made, or its stored state can't be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// No key could be read or made.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The state directory can't be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// An endpoint can't listen, or a listener can't invite.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// The port can't be opened.
    #[error("can't listen: {0}")]
    Listen(#[from] io::Error),
    /// This machine's addresses, which an invite must contain, are not known.
    #[error(transparent)]
    Links(#[from] LinkError),
    /// TLS can't be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The list of peers can't be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No invite could be made.
    #[error(transparent)]
    Invite(#[from] InviteError),
    /// The list of invites is full.
    #[error("{limit} invites are pending, the most that are kept in memory")]
    TooManyInvites {
        /// The maximum number.
        limit: usize,
    },
}

/// A listener returns no stream, or no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AcceptError {
    /// [`BondListener::accept_connection`](crate::BondListener::accept_connection) was called
    /// first: streams come from connections.
    #[error("the listener returns connections, accept streams on these")]
    GivesConnections,
    /// [`BondListener::accept`](crate::BondListener::accept) was called first.
    #[error("the listener returns streams, not connections")]
    GivesStreams,
}

/// A connection could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// This machine's links are not known.
    #[error(transparent)]
    Links(#[from] LinkError),
    /// The peer did not answer, or does not admit this endpoint.
    #[error(transparent)]
    Open(#[from] OpenStreamError),
    /// The peer can't be stored.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Neither a bonded connection nor a plain one could be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FallbackError {
    /// The text is no address, or has no port.
    #[error("not an address: {0}")]
    Address(String),
    /// The bonded connection failed, and the fallback to plain TCP is not allowed.
    #[error("the peer knows hawser, so plain tcp is not used: {0}")]
    Bonded(#[source] ConnectError),
    /// The peer's key is known, and no holder of that key admits this host at the peer's address.
    #[error("the key {key} is known for this address, so plain tcp is not used: {reason}")]
    KeyKnown {
        /// The key that was to be proved.
        key: PublicKey,
        /// The failure of the bonded connection.
        reason: ConnectError,
    },
    /// The peer does not know Hawser, and the plain connection failed.
    #[error("the peer does not know hawser, and plain tcp failed: {0}")]
    Plain(#[source] io::Error),
    /// TLS can't be set up.
    #[error(transparent)]
    Tls(TlsError),
    /// No temporary key could be made. No longer returned: the probe shows no key.
    #[error(transparent)]
    Identity(IdentityError),
    /// The state directory can't be read.
    #[error(transparent)]
    State(EndpointError),
    /// The list of known keys can't be read or written.
    #[error(transparent)]
    KnownKeys(#[from] KnownKeysError),
}
