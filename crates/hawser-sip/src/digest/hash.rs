//! Digest algorithms, and the hash of a password (RFC 7616 §3.4).

use std::fmt::{self, Write as _};

use md5::{Digest as _, Md5};
use ring::digest::{SHA256, digest};
use zeroize::Zeroizing;

/// An algorithm, in order of increasing strength.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Algorithm {
    /// MD5 (RFC 3261 §22.4), for old servers and clients.
    Md5,
    /// SHA-256 (RFC 8760).
    Sha256,
}

/// Hash that a server stores instead of a password: `H(user:realm:password)`. It is worth as much
/// as the password for this realm, and must be stored as safely.
#[derive(Clone)]
pub struct Secret {
    pub(super) algorithm: Algorithm,
    pub(super) hash: Zeroizing<String>,
}

impl Algorithm {
    /// Returns the name in header fields.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Md5 => "MD5",
            Self::Sha256 => "SHA-256",
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        [Self::Md5, Self::Sha256]
            .into_iter()
            .find(|algorithm| algorithm.as_str().eq_ignore_ascii_case(name))
    }

    /// Returns the hash of the parts, joined by colons, in hexadecimal digits.
    pub(super) fn hash(self, parts: &[&str]) -> String {
        let text = Zeroizing::new(parts.join(":"));
        match self {
            Self::Md5 => hex(&Md5::digest(text.as_bytes())),
            Self::Sha256 => hex(digest(&SHA256, text.as_bytes()).as_ref()),
        }
    }
}

impl Secret {
    /// Creates the secret of a password.
    #[must_use]
    pub fn new(algorithm: Algorithm, username: &str, realm: &str, password: &str) -> Self {
        let hash = algorithm.hash(&[username, realm, password]);
        Self {
            algorithm,
            hash: Zeroizing::new(hash),
        }
    }

    /// Returns the algorithm of the secret.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

impl fmt::Debug for Secret {
    /// Without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret")
            .field("algorithm", &self.algorithm)
            .finish_non_exhaustive()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
