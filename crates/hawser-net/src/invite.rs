//! Invites: one line of text that lets one client enrol with a gateway once.
//!
//! ```text
//! hawser://gw.example.org:7443/#AYx3…
//!          └─ first address ─┘  └─ base64url, no padding: everything else
//! ```
//!
//! The part behind `#` is: version 1 (one byte), the gateway's public key (32), the secret (32),
//! when it expires (Unix seconds, 8, big-endian), how many further addresses (1), these addresses
//! (kind 4 with 4 bytes, kind 6 with 16, or kind 0 with a length byte and a name; then the port, 2,
//! big-endian), and the first 4 bytes of the SHA-256 of all that, so that a line that was cut or
//! mistyped is told apart from one that was refused. The first address stands outside, so that
//! somebody who reaches the gateway by another name may put that there.

mod codec;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hkdf;
use ring::rand::{SecureRandom as _, SystemRandom};
use zeroize::{Zeroize as _, Zeroizing};

use crate::files;
use crate::host_port::{HostPort, ParseHostPortError, excerpt};
use crate::identity::{FileError, Identity, IdentityError, PublicKey};
use crate::unix_time::UnixTime;

/// Leave for one client to enrol with one gateway.
///
/// Whoever has the text can enrol, once, so it is a secret until then. The gateway does not keep
/// it: it keeps the public half of [`Self::enrolment_identity`].
#[derive(Clone, PartialEq, Eq)]
pub struct Invite {
    gateway: PublicKey,
    addresses: Vec<HostPort>,
    secret: Zeroizing<[u8; 32]>,
    expires: UnixTime,
}

impl Invite {
    /// A new invite to the gateway with key `gateway` at `addresses`, with a secret from the
    /// system's random numbers.
    pub fn generate(
        gateway: PublicKey,
        addresses: Vec<HostPort>,
        expires: UnixTime,
    ) -> Result<Self, InviteError> {
        let mut secret = Zeroizing::new([0; 32]);
        SystemRandom::new()
            .fill(secret.as_mut())
            .map_err(|_| InviteError::Identity(IdentityError::NoRandomness))?;
        Self::new(gateway, addresses, secret, expires)
    }

    /// An invite of these parts; 1 to [`MAX_ADDRESSES`] addresses.
    pub fn new(
        gateway: PublicKey,
        addresses: Vec<HostPort>,
        secret: Zeroizing<[u8; 32]>,
        expires: UnixTime,
    ) -> Result<Self, InviteError> {
        match addresses.len() {
            1..=MAX_ADDRESSES => Ok(Self {
                gateway,
                addresses,
                secret,
                expires,
            }),
            got => Err(InviteError::AddressCount { got }),
        }
    }

    /// The key that the gateway proves in the TLS handshake.
    pub const fn gateway(&self) -> PublicKey {
        self.gateway
    }

    /// Where the gateway listens, 1 to [`MAX_ADDRESSES`] places, the best first.
    pub fn addresses(&self) -> &[HostPort] {
        &self.addresses
    }

    /// From this second on the gateway refuses it.
    pub const fn expires(&self) -> UnixTime {
        self.expires
    }

    /// Whether it is too late at `now`.
    pub fn is_expired(&self, now: UnixTime) -> bool {
        now >= self.expires
    }

    /// The identity that a client proves in the TLS handshake to show that it has this invite.
    ///
    /// Its seed is HKDF-SHA256 of the secret, without salt, for the purpose
    /// `hawser invite identity`; so the gateway needs to keep only the public half.
    pub fn enrolment_identity(&self) -> Identity {
        let mut seed = Zeroizing::new([0; 32]);
        hkdf::Salt::new(hkdf::HKDF_SHA256, &[])
            .extract(self.secret.as_ref())
            .expand(&[ENROLMENT_PURPOSE], hkdf::HKDF_SHA256)
            .and_then(|material| material.fill(seed.as_mut()))
            .expect("the seed has the length of the hash, which HKDF can always fill");
        Identity::from_seed(*seed)
    }

    /// The line to hand over, the same as [`fmt::Display`], wiped when dropped.
    pub fn to_line(&self) -> Zeroizing<String> {
        Zeroizing::new(self.to_string())
    }

    /// Writes the line and a line end to the file `path`, mode 0600, whole or not at all.
    pub fn write_file(&self, path: &Path) -> Result<(), InviteError> {
        let mut line = self.to_line();
        line.push('\n');
        files::replace(path, line.as_bytes())?;
        Ok(())
    }
}

impl fmt::Display for Invite {
    /// The whole invite, secret included.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = codec::encode(self);
        let mut encoded = URL_SAFE_NO_PAD.encode(bytes.as_slice());
        let first = self.addresses.first().ok_or(fmt::Error)?;
        let written = write!(f, "{SCHEME}{first}/#{encoded}");
        encoded.zeroize();
        written
    }
}

impl fmt::Debug for Invite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Invite")
            .field("gateway", &self.gateway)
            .field("addresses", &self.addresses)
            .field("expires", &self.expires)
            .finish_non_exhaustive()
    }
}

impl FromStr for Invite {
    type Err = InviteError;

    /// Reads the text form; blanks around it are ignored, and so is a missing `/` before the `#`.
    fn from_str(text: &str) -> Result<Self, InviteError> {
        let text = text.trim();
        let rest = text
            .strip_prefix(SCHEME)
            .ok_or_else(|| InviteError::Scheme {
                got: excerpt(before_fragment(text)),
            })?;
        let (authority, fragment) = rest.split_once('#').ok_or(InviteError::NoFragment)?;
        let first: HostPort = authority.strip_suffix('/').unwrap_or(authority).parse()?;
        if fragment.len() > MAX_FRAGMENT {
            return Err(InviteError::TooLong {
                got: fragment.len(),
            });
        }
        let decoded = URL_SAFE_NO_PAD
            .decode(fragment)
            .map_err(|_| InviteError::Alphabet)?;
        codec::decode(&Zeroizing::new(decoded), first)
    }
}

/// Reads an invite given as an argument: the invite itself, or `@FILE` for a file that holds it.
pub fn read_reference(reference: &str) -> Result<Invite, InviteError> {
    let Some(path) = reference.strip_prefix('@') else {
        return reference.parse();
    };
    let path = Path::new(path);
    let file = std::fs::File::open(path).map_err(|e| FileError::io("open", path, e))?;
    let bytes = Zeroizing::new(files::read_bounded(&file, path, MAX_FILE)?);
    // Not an invite in any case; the error about the scheme says so.
    std::str::from_utf8(&bytes).unwrap_or_default().parse()
}

/// Why there is no invite.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InviteError {
    /// Something else than an invite.
    #[error("an invite begins with {SCHEME}, got {got:?}")]
    Scheme {
        /// The start of what was there.
        got: String,
    },
    /// The second half is missing; shells take it for a comment when a blank comes before it.
    #[error("the invite ends before its '#'; was it cut, or not quoted?")]
    NoFragment,
    /// The address between `hawser://` and `/#` is none.
    #[error("the address in the invite is wrong: {0}")]
    Address(#[from] ParseHostPortError),
    /// Characters behind the `#` that do not belong there.
    #[error("behind its '#' an invite has only A-Z, a-z, 0-9, - and _ (no padding)")]
    Alphabet,
    /// Longer than any invite.
    #[error("an invite has at most {MAX_FRAGMENT} characters behind its '#', got {got}")]
    TooLong {
        /// Characters behind the `#`.
        got: usize,
    },
    /// Cut or mistyped.
    #[error("the invite is damaged (wrong check sum); was all of it copied?")]
    Damaged,
    /// From a later release.
    #[error("this is an invite of version {got}, only version 1 is understood; update hawser")]
    Version {
        /// Its version.
        got: u8,
    },
    /// The check sum is right, yet the bytes make no sense.
    #[error("the invite is malformed: {what}")]
    Malformed {
        /// What is wrong.
        what: &'static str,
    },
    /// Too few or too many addresses.
    #[error("an invite has 1 to {MAX_ADDRESSES} addresses, got {got}")]
    AddressCount {
        /// How many there were.
        got: usize,
    },
    /// No secret could be made.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

/// What is behind the `#` never gets into an error.
fn before_fragment(text: &str) -> &str {
    text.split('#').next().unwrap_or_default()
}

/// The most addresses that an invite has.
pub const MAX_ADDRESSES: usize = 16;

const SCHEME: &str = "hawser://";
const ENROLMENT_PURPOSE: &[u8] = b"hawser invite identity";
/// Base64 of the fixed part and 15 names of the largest length is less.
const MAX_FRAGMENT: usize = 6000;
const MAX_FILE: u64 = 16 * 1024;
