//! Why a connection to a name that is vouched for comes about in no way.

use std::collections::BTreeSet;

use hawser_net::identity::PublicKey;

use crate::transport::DialError;

/// Why a connection is refused, in the words that users read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    /// Nobody has vouched for the name, or not any more.
    #[error("its voucher is not known: {0}")]
    NoVoucher(String),
    /// No address of the name answers where servers of strangers do.
    #[error("its port {port} is not reached: {error}")]
    NotReached {
        /// The port.
        port: u16,
        /// What came of it.
        error: DialError,
    },
    /// Who answers there proves no key at all.
    #[error("whoever answers at its port {port} proves no key: {reason}")]
    NoKey {
        /// The port.
        port: u16,
        /// What came instead.
        reason: String,
    },
    /// Another host, or an attacker, or a key that its owner does not vouch for.
    #[error("it proves the key {got}, and the voucher has {}", listed(.vouched))]
    OtherKey {
        /// The key that was proved.
        got: PublicKey,
        /// The keys of the voucher.
        vouched: BTreeSet<PublicKey>,
    },
    /// The server has proved its key, and no session came about.
    #[error("there is no session with it: {0}")]
    NoSession(DialError),
    /// The server refuses the stream.
    #[error("it refuses a stream to this port: {0}")]
    Stream(DialError),
}

impl Refusal {
    /// What the program is told.
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
