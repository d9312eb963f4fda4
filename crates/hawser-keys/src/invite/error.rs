use crate::host_port::ParseHostPortError;
use crate::identity::{FileError, IdentityError};

/// Why an invite cannot be made, read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InviteError {
    /// The text is not an invite.
    #[error("an invite begins with {SCHEME}, got {got:?}")]
    Scheme {
        /// The start of the text.
        got: String,
    },
    /// The second half is missing; a shell treats it as a comment when a blank precedes it.
    #[error("the invite ends before its '#'; was it cut, or not quoted?")]
    NoFragment,
    /// The address between `hawser://` and `/#` is invalid.
    #[error("the address in the invite is wrong: {0}")]
    Address(#[from] ParseHostPortError),
    /// Invalid characters behind the `#`.
    #[error("behind its '#' an invite has only A-Z, a-z, 0-9, - and _ (no padding)")]
    Alphabet,
    /// The text is longer than any invite.
    #[error("an invite has at most {MAX_FRAGMENT} characters behind its '#', got {got}")]
    TooLong {
        /// Characters behind the `#`.
        got: usize,
    },
    /// The text was cut or mistyped.
    #[error("the invite is damaged (wrong check sum); was all of it copied?")]
    Damaged,
    /// The invite is from a later release.
    #[error("this is an invite of version {got}, only version 1 is understood; update hawser")]
    Version {
        /// Version of the invite.
        got: u8,
    },
    /// The check sum is right, yet the content is invalid.
    #[error("the invite is malformed: {what}")]
    Malformed {
        /// The problem.
        what: &'static str,
    },
    /// Too few or too many addresses.
    #[error("an invite has 1 to {MAX_ADDRESSES} addresses, got {got}")]
    AddressCount {
        /// Number of addresses.
        got: usize,
    },
    /// No secret could be generated.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

/// Most addresses of an invite.
pub const MAX_ADDRESSES: usize = 16;
/// The beginning of an invite.
pub(super) const SCHEME: &str = "hawser://";
/// Base64 of the fixed part and 15 names of the largest length is shorter.
pub(super) const MAX_FRAGMENT: usize = 6000;
