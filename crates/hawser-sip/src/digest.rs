//! Digest: proof of a password without sending it (RFC 3261 §22, RFC 7616, RFC 8760).
//!
//! MD5 is for servers that support nothing better. Neither algorithm sends the password, but a
//! listener can test passwords against recorded messages: use TLS to a registrar that matters.

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

/// A server's challenge, in WWW-Authenticate or Proxy-Authenticate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// Realm of the password.
    pub realm: String,
    /// Nonce of the server that the proof covers.
    pub nonce: String,
    /// Opaque string that the client repeats.
    pub opaque: Option<String>,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Whether the server supports `qop=auth`. Without it requests are not counted (RFC 2069).
    pub has_qop: bool,
    /// Whether the proof failed only because the nonce was too old.
    pub is_stale: bool,
}

/// A client's proof, in Authorization or Proxy-Authorization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Name of the user.
    pub username: String,
    /// Realm of the password.
    pub realm: String,
    /// Nonce of the server.
    pub nonce: String,
    /// URI of the request.
    pub uri: String,
    /// The proof in hexadecimal digits.
    pub response: String,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Opaque string of the server.
    pub opaque: Option<String>,
    /// Request count and the client's nonce; absent with a server that predates `qop`.
    pub counted: Option<Counted>,
}

/// Values that `qop=auth` adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Number of requests with this nonce, this one included.
    pub count: u32,
    /// Nonce of the client.
    pub cnonce: String,
}

/// Reason why a header field is no supported challenge or credentials.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DigestFault {
    /// The scheme is not Digest.
    #[error("the scheme {0} is not known, only Digest")]
    Scheme(String),
    /// The field can't be read.
    #[error(transparent)]
    Syntax(#[from] crate::SyntaxFault),
    /// A parameter is missing.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// The algorithm is not supported.
    #[error("the algorithm {0} is not known, only MD5 and SHA-256")]
    Algorithm(String),
    /// No offered `qop` is supported.
    #[error("the qop {0} is not known, only auth")]
    Qop(String),
}
