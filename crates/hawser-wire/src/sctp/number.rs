use std::fmt;

/// Transmission sequence number: the number of a DATA chunk in its direction of an association. It
/// wraps, so that two numbers compare only while they are less than 2^31 apart (RFC 1982).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Tsn(u32);

impl Tsn {
    /// Wraps the plain number.
    pub const fn new(value: u32) -> Self {
        Self(value)
    }

    /// The plain number.
    pub const fn value(self) -> u32 {
        self.0
    }

    /// Returns the number `count` further on.
    pub const fn advance(self, count: u32) -> Self {
        Self(self.0.wrapping_add(count))
    }

    /// Returns the distance from `earlier`, which must not be later: 0 for the same.
    pub const fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }

    /// Tells whether this number comes after `other`.
    pub const fn is_after(self, other: Self) -> bool {
        let distance = self.since(other);
        distance != 0 && distance < 1 << 31
    }
}

impl fmt::Display for Tsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TSN {}", self.0)
    }
}

impl fmt::Debug for Tsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// One stream of one direction of an association.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct StreamNumber(u16);

impl StreamNumber {
    /// Wraps the plain number.
    pub const fn new(value: u16) -> Self {
        Self(value)
    }

    /// The plain number.
    pub const fn value(self) -> u16 {
        self.0
    }
}

impl fmt::Display for StreamNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SCTP stream {}", self.0)
    }
}

impl fmt::Debug for StreamNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Verification tag: proof that the sender of a packet belongs to the association, chosen by the
/// receiver. 0 only in packets with INIT.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct VerificationTag(u32);

impl VerificationTag {
    /// The tag of packets with an INIT, and of no association.
    pub const NONE: Self = Self(0);

    /// Wraps the plain number.
    pub const fn new(value: u32) -> Self {
        Self(value)
    }

    /// The plain number.
    pub const fn value(self) -> u32 {
        self.0
    }
}

impl fmt::Debug for VerificationTag {
    /// Hides the tag, since knowing it allows ending the association.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VerificationTag(..)")
    }
}
