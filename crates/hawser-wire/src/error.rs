use std::fmt;

/// Bytes that do not follow the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed {what}: {reason}")]
pub struct Malformed {
    /// The element that was being read.
    pub what: &'static str,
    /// The fault.
    pub reason: MalformedReason,
}

/// Fault of an element of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MalformedReason {
    /// The input ends inside the element.
    Truncated,
    /// The element is longer, or its number larger, than the protocol allows.
    TooLarge,
    /// Bits or values that the protocol reserves are set.
    Reserved,
    /// The element has bytes behind its end.
    TrailingBytes,
    /// An element of unknown type is marked as critical.
    UnknownCritical,
    /// A text is not UTF-8, or a value is not among those defined.
    BadValue,
}

impl fmt::Display for MalformedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncated => "it ends too early",
            Self::TooLarge => "it is larger than allowed",
            Self::Reserved => "reserved bits are set",
            Self::TrailingBytes => "bytes follow its end",
            Self::UnknownCritical => "its type is unknown and critical",
            Self::BadValue => "its value is not one of those defined",
        })
    }
}

impl Malformed {
    pub(crate) const fn new(what: &'static str, reason: MalformedReason) -> Self {
        Self { what, reason }
    }

    pub(crate) const fn truncated(what: &'static str) -> Self {
        Self::new(what, MalformedReason::Truncated)
    }
}
