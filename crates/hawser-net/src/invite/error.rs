use crate::host_port::ParseHostPortError;
use crate::identity::{FileError, IdentityError};

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
        /// The problem.
        what: &'static str,
    },
    /// Too few or too many addresses.
    #[error("an invite has 1 to {MAX_ADDRESSES} addresses, got {got}")]
    AddressCount {
        /// Their number.
        got: usize,
    },
    /// No secret could be made.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

/// The most addresses that an invite has.
pub const MAX_ADDRESSES: usize = 16;
/// The beginning of an invite.
pub(super) const SCHEME: &str = "hawser://";
/// Base64 of the fixed part and 15 names of the largest length is less.
pub(super) const MAX_FRAGMENT: usize = 6000;
