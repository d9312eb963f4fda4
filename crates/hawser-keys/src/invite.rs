//! Invites: one line of text that lets one client enrol with a gateway once.
//!
//! ```text
//! hawser://gw.example.org:7443/#AYx3…
//!          └─ first address ─┘  └─ base64url, no padding: everything else
//! ```
//!
//! The part behind `#` is: version 1 (one byte), the gateway's public key (32), the secret (32),
//! the expiry time (Unix seconds, 8, big-endian), the number of further addresses (1), these
//! addresses (kind 4 with 4 bytes, kind 6 with 16, or kind 0 with a length byte and a name; then
//! the port, 2, big-endian), and the first 4 bytes of the SHA-256 of all that, so that a line that
//! was cut or mistyped is told apart from one that was refused. The first address stands outside,
//! so that a user who reaches the gateway by another name can replace it.

mod codec;
mod error;
mod parts;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use base64::{DecodeError, Engine as _};
use zeroize::{Zeroize as _, Zeroizing};

use crate::files;
use crate::host_port::{HostPort, excerpt};
use crate::identity::FileError;
pub use error::{InviteError, MAX_ADDRESSES};
use error::{MAX_FRAGMENT, SCHEME};
pub use parts::Invite;

impl fmt::Display for Invite {
    /// Writes the whole invite, secret included.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = codec::encode(self);
        let mut encoded = URL_SAFE_NO_PAD.encode(bytes.as_slice());
        let first = self.addresses.first().ok_or(fmt::Error)?;
        let written = write!(f, "{SCHEME}{first}/#{encoded}");
        encoded.zeroize();
        written
    }
}

impl FromStr for Invite {
    type Err = InviteError;

    /// Reads the text form; ignores blanks around it, and a missing `/` before the `#`.
    fn from_str(text: &str) -> Result<Self, InviteError> {
        let text = text.trim();
        let rest = text
            .strip_prefix(SCHEME)
            .ok_or_else(|| InviteError::Scheme {
                // Errors must never show what stands behind the `#`.
                got: excerpt(text.split('#').next().unwrap_or_default()),
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
            .map_err(|error| match error {
                DecodeError::InvalidByte(..) | DecodeError::InvalidPadding => InviteError::Alphabet,
                _ => InviteError::Damaged,
            })?;
        codec::decode(&Zeroizing::new(decoded), first)
    }
}

/// Reads an invite given as an argument: the invite itself, or `@FILE` for a file with it.
pub fn read_reference(reference: &str) -> Result<Invite, InviteError> {
    let Some(path) = reference.strip_prefix('@') else {
        return reference.parse();
    };
    let path = Path::new(path);
    let file = std::fs::File::open(path).map_err(|e| FileError::io("open", path, e))?;
    let bytes = Zeroizing::new(files::read_bounded(&file, path, MAX_FILE)?);
    // Non-UTF-8 bytes are no invite; the error about the scheme says so.
    std::str::from_utf8(&bytes).unwrap_or_default().parse()
}

const MAX_FILE: u64 = 16 * 1024;
