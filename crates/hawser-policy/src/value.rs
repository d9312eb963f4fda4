use std::fmt;
use std::str::FromStr;

/// A range of ports, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortRange {
    first: u16,
    last: u16,
}

impl PortRange {
    /// Creates the range from `first` to `last`; `None` if it is empty or contains port 0.
    pub const fn new(first: u16, last: u16) -> Option<Self> {
        if first == 0 || first > last {
            return None;
        }
        Some(Self { first, last })
    }

    /// Returns the lowest port.
    pub const fn first(self) -> u16 {
        self.first
    }

    /// Returns the highest port.
    pub const fn last(self) -> u16 {
        self.last
    }

    /// Tells whether `port` is in the range.
    pub const fn contains(self, port: u16) -> bool {
        self.first <= port && port <= self.last
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(f, "{}", self.first)
        } else {
            write!(f, "{}-{}", self.first, self.last)
        }
    }
}

impl FromStr for PortRange {
    type Err = PortRangeError;

    /// `443` or `5000-5100`.
    fn from_str(text: &str) -> Result<Self, PortRangeError> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let range = digits(first).zip(digits(last));
        let range = range.and_then(|(first, last)| Self::new(first, last));
        range.ok_or(PortRangeError)
    }
}

/// A user named in a rule.
///
/// Two users are equal if their numbers are.
#[derive(Clone, Debug)]
pub struct User {
    id: u32,
    name: Option<String>,
}

impl User {
    /// Creates a user with a name and the numeric id found for it.
    pub const fn named(name: String, id: u32) -> Self {
        Self {
            id,
            name: Some(name),
        }
    }

    /// Returns the numeric user id.
    pub const fn id(&self) -> u32 {
        self.id
    }

    /// Returns the name, if the rule gives one.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }
}

impl From<u32> for User {
    fn from(id: u32) -> Self {
        Self { id, name: None }
    }
}

impl PartialEq for User {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for User {}

impl fmt::Display for User {
    /// Formats the user as in rules.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => f.write_str(name),
            None => write!(f, "{}", self.id),
        }
    }
}

/// The differentiated-services code point in a packet's header, 0 to 63.
///
/// Source: RFC 2474; the names from RFC 2597, 3246, 8622.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Dscp(u8);

impl Dscp {
    /// The code point `value`; none above 63.
    pub const fn new(value: u8) -> Option<Self> {
        if value > MAX_DSCP {
            return None;
        }
        Some(Self(value))
    }

    /// Returns the number in the header.
    pub const fn value(self) -> u8 {
        self.0
    }
}

impl fmt::Display for Dscp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl FromStr for Dscp {
    type Err = DscpError;

    /// A number, or a name: `ef`, `le`, `cs0` to `cs7`, `af11` to `af43`.
    fn from_str(text: &str) -> Result<Self, DscpError> {
        let value = match text.as_bytes() {
            b"ef" => Some(46),
            b"le" => Some(1),
            [b'c', b's', class @ b'0'..=b'7'] => Some((class - b'0') * 8),
            [b'a', b'f', class @ b'1'..=b'4', drop @ b'1'..=b'3'] => {
                Some((class - b'0') * 8 + (drop - b'0') * 2)
            }
            _ => digits(text).and_then(|number| u8::try_from(number).ok()),
        };
        value.and_then(Self::new).ok_or(DscpError)
    }
}

/// Reads a number that consists of digits only.
fn digits(text: &str) -> Option<u16> {
    let is_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_digits)
}

/// A text that is not a range of ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a port from 1 to 65535 or a range such as 5000-5100")]
pub struct PortRangeError;

/// A text that is not a code point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a code point from 0 to 63, or ef, le, cs0 to cs7, af11 to af43")]
pub struct DscpError;

/// The field has six bits.
const MAX_DSCP: u8 = 63;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_read_back_and_have_both_their_ends() {
        for (text, first, last) in [("443", 443, 443), ("1-65535", 1, u16::MAX)] {
            let range: PortRange = text.parse().unwrap();
            assert_eq!((range.first(), range.last()), (first, last));
            assert!(range.contains(first) && range.contains(last));
            assert_eq!(range.to_string(), text);
        }
        let range: PortRange = "20-22".parse().unwrap();
        assert!(!range.contains(19) && range.contains(21) && !range.contains(23));
    }

    #[test]
    fn what_holds_no_port_is_refused() {
        for text in [
            "", "-", "0", "0-5", "5-4", "5-", "-5", "+5", "65536", "1-2-3", "a", " 5",
        ] {
            assert_eq!(text.parse::<PortRange>(), Err(PortRangeError), "{text}");
        }
    }

    #[test]
    fn code_points_have_names() {
        for (text, value) in [
            ("ef", 46),
            ("le", 1),
            ("cs0", 0),
            ("cs1", 8),
            ("cs7", 56),
            ("af11", 10),
            ("af41", 34),
            ("af43", 38),
            ("63", 63),
        ] {
            assert_eq!(text.parse::<Dscp>().map(Dscp::value), Ok(value), "{text}");
        }
        for text in ["64", "cs8", "af10", "af51", "EF", "", "-1", "300"] {
            assert_eq!(text.parse::<Dscp>(), Err(DscpError), "{text}");
        }
    }
}
