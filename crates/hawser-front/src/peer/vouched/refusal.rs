//! Why a connection to a vouched name is refused.

use std::collections::BTreeSet;

use hawser_keys::identity::PublicKey;

use crate::transport::DialError;

/// Why a connection is refused, in the words that users read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    /// No voucher for the name is known, or it has expired.
    #[error("the name's voucher is not known: {0}")]
    NoVoucher(String),
    /// No address of the name answers at the port for hosts that have not enrolled.
    #[error("can't reach port {port} of the name: {error}")]
    NotReached {
        /// The port.
        port: u16,
        /// The error of the attempt.
        error: DialError,
    },
    /// The host that answers at this port proves no key at all.
    #[error("the host at port {port} of the name proves no key: {reason}")]
    NoKey {
        /// The port.
        port: u16,
        /// The error of the handshake.
        reason: String,
    },
    /// The proved key is that of another host or an attacker, or its owner does not vouch for it.
    #[error("the host proves the key {got}, but the voucher has {}", listed(.vouched))]
    OtherKey {
        /// The key that was proved.
        got: PublicKey,
        /// The keys of the voucher.
        vouched: BTreeSet<PublicKey>,
    },
    /// The server has proved its key, but no session was made.
    #[error("there is no session with the server: {0}")]
    NoSession(DialError),
    /// The server refuses the stream.
    #[error("the server refuses a stream to this port: {0}")]
    Stream(DialError),
}

impl Refusal {
    /// Returns the error for the application.
    pub(super) fn told(&self) -> DialError {
        match self {
            Self::NoVoucher(_) | Self::NoKey { .. } | Self::OtherKey { .. } => {
                DialError::RefusedByPolicy
            }
            Self::NotReached { error, .. } | Self::NoSession(error) | Self::Stream(error) => *error,
        }
    }
}

fn listed(keys: &BTreeSet<PublicKey>) -> String {
    let keys: Vec<String> = keys.iter().map(PublicKey::to_string).collect();
    keys.join(" or ")
}
