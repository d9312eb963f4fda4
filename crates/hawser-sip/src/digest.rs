//! Digest: proof of a password without sending it (RFC 3261 §22, RFC 7616, RFC 8760).
//!
//! MD5 is for servers that know nothing better. With neither algorithm does the password travel,
//! but a listener can try passwords against what it has heard: a registrar that matters is asked
//! over TLS.

mod answer;
mod counts;
mod fields;
mod hash;
mod nonce;
#[cfg(test)]
mod tests;
mod verify;

use thiserror::Error;

pub use answer::{Answerer, ChallengeFault};
pub use hash::{Algorithm, Secret};
pub use verify::{AuthFault, Verifier};

/// What a server asks for, in WWW-Authenticate or Proxy-Authenticate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// What the password is for.
    pub realm: String,
    /// A word of the server that the proof is for.
    pub nonce: String,
    /// A word that the client repeats.
    pub opaque: Option<String>,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Whether the server knows `qop=auth`. One without counts no requests (RFC 2069).
    pub has_qop: bool,
    /// Whether only the nonce was too old.
    pub is_stale: bool,
}

/// The proof, in Authorization or Proxy-Authorization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Who it is.
    pub username: String,
    /// What the password is for.
    pub realm: String,
    /// The server's word.
    pub nonce: String,
    /// The URI that is asked for.
    pub uri: String,
    /// The proof in hexadecimal digits.
    pub response: String,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The server's other word.
    pub opaque: Option<String>,
    /// The count of requests, and the client's own word; absent with a server from before `qop`.
    pub counted: Option<Counted>,
}

/// What `qop=auth` adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Number of requests with this nonce, this one included.
    pub count: u32,
    /// The client's own word.
    pub cnonce: String,
}

/// Why a header field is neither challenge nor credentials that are understood here.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DigestFault {
    /// It is for another scheme than Digest.
    #[error("the scheme {0} is not known, only Digest")]
    Scheme(String),
    /// It can't be read.
    #[error(transparent)]
    Syntax(#[from] crate::SyntaxFault),
    /// It lacks this parameter.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// Its algorithm is another one.
    #[error("the algorithm {0} is not known, only MD5 and SHA-256")]
    Algorithm(String),
    /// It offers no `qop` that is known here.
    #[error("the qop {0} is not known, only auth")]
    Qop(String),
}
