use std::io;

use hawser_keys::identity::IdentityError;
use hawser_keys::invite::InviteError;
use hawser_seal::TlsError;

/// Reason why a script could not be performed to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostileError {
    /// A socket, a file or a program.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The handshake.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// No key for the hostile peer.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The invite of the program under test, or the one for it.
    #[error(transparent)]
    Invite(#[from] InviteError),
    /// This machine or its user may not make the network that the script needs.
    #[error("no network of its own: {0}")]
    NoNetwork(String),
    /// The peer has ended the connection or the session.
    #[error("the peer has ended it")]
    Gone,
    /// The gateway has closed a connection that wanted to join.
    #[error("a join is refused")]
    Refused,
    /// The peer did not do something in time.
    #[error("never: {0}")]
    Never(String),
    /// The program under test said something that makes no sense.
    #[error("{0}")]
    Strange(String),
}
