//! Header fields of one or two words.

use std::fmt;
use std::time::Duration;

use thiserror::Error;

use super::Field;
use crate::cursor::{Cursor, SyntaxFault, is_token};
use crate::method::Method;
use crate::params::Params;

/// CSeq: the number and method of a request (RFC 3261 §20.16).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CSeq {
    /// The number, below 2^31 (RFC 3261 §8.1.1.5).
    pub number: u32,
    /// The method of the request.
    pub method: Method,
}

/// Call-ID: identifies a call or registration (RFC 3261 §20.8). Compared byte by byte.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(String);

/// Max-Forwards: hops that a request may still take (RFC 3261 §20.22).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxForwards(pub u8);

/// A whole number of seconds below 2^32: Expires, Min-Expires and the parameter `expires`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seconds(pub u32);

/// A preference from 0 to 1 in thousandths (RFC 3261 §25.1 `qvalue`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Q(u16);

/// Event: the package that a subscription is for (RFC 6665 §8.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The name of the package, such as `reg`.
    pub package: String,
    /// Parameters, such as `id`.
    pub params: Params,
}

/// Subscription-State: the state of a subscription (RFC 6665 §8.2.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscriptionState {
    /// `active`, `pending`, `terminated`, or another word.
    pub state: String,
    /// Parameters: `expires`, `reason`, `retry-after`.
    pub params: Params,
}

/// A token, such as an option tag of Require.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token(pub String);

impl CallId {
    /// Creates a Call-ID of these characters.
    ///
    /// # Errors
    /// When a character is not allowed, or the text is empty.
    pub fn new(text: &str) -> Result<Self, SyntaxFault> {
        Self::parse(text)
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Seconds {
    /// Returns the span of time.
    #[must_use]
    pub fn duration(self) -> Duration {
        Duration::from_secs(u64::from(self.0))
    }
}

/// A preference that is not from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("q is {0} thousandths; from 0 to 1000 is allowed")]
pub struct QFault(pub u16);

impl Q {
    /// The highest preference, which a contact without a `q` has.
    pub const ONE: Self = Self(1000);

    /// Creates a preference in thousandths.
    ///
    /// # Errors
    /// Above 1000.
    pub fn from_thousandths(thousandths: u16) -> Result<Self, QFault> {
        if thousandths <= 1000 {
            Ok(Self(thousandths))
        } else {
            Err(QFault(thousandths))
        }
    }

    /// Returns the preference in thousandths.
    #[must_use]
    pub fn thousandths(self) -> u16 {
        self.0
    }
}

impl Field for CSeq {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self, SyntaxFault> {
        let number = cursor.number("a sequence number", (1 << 31) - 1)? as u32;
        let before = cursor.rest();
        cursor.skip_space();
        if before == cursor.rest() {
            return Err(SyntaxFault::Expected("a space behind the number"));
        }
        let method = Method::named(cursor.token("a method")?);
        Ok(Self { number, method })
    }
}

impl Field for CallId {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self, SyntaxFault> {
        let is_word = |byte: u8| is_token(byte) || b"()<>:\\\"/[]?{}".contains(&byte);
        let start = cursor.rest();
        let left = cursor.take_while(is_word);
        let has_right = cursor.eat_exactly("@");
        let right = cursor.take_while(is_word);
        if left.is_empty() || (has_right && right.is_empty()) {
            return Err(SyntaxFault::Expected("a Call-ID"));
        }
        let length = start.len() - cursor.rest().len();
        Ok(Self(start[..length].to_owned()))
    }
}

impl Field for MaxForwards {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self, SyntaxFault> {
        let hops = cursor.number("a number of hops", u64::from(u8::MAX))?;
        Ok(Self(hops as u8))
    }
}

impl Field for Seconds {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self, SyntaxFault> {
        let seconds = cursor.number("a number of seconds", u64::from(u32::MAX))?;
        Ok(Self(seconds as u32))
    }
}

impl Field for Q {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self, SyntaxFault> {
        const FAULT: SyntaxFault = SyntaxFault::Expected("q from 0 to 1 with three decimals");
        let text = cursor.take_while(|byte| byte.is_ascii_digit() || byte == b'.');
        let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
        let is_number = matches!(whole, "0" | "1") && decimals.len() <= 3;
        let decimals: u16 = if is_number {
            format!("{decimals:0<3}").parse().map_err(|_| FAULT)?
        } else {
            return Err(FAULT);
        };
        let whole = if whole == "1" { 1000 } else { 0 };
        Self::from_thousandths(whole + decimals).map_err(|_| FAULT)
    }
}

impl Field for Event {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self, SyntaxFault> {
        let package = cursor.token("an event package")?.to_owned();
        let params = Params::read(cursor)?;
        Ok(Self { package, params })
    }
}

impl Field for SubscriptionState {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self, SyntaxFault> {
        let state = cursor.token("the state of a subscription")?;
        let state = state.to_ascii_lowercase();
        let params = Params::read(cursor)?;
        Ok(Self { state, params })
    }
}

impl Field for Token {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self, SyntaxFault> {
        Ok(Self(cursor.token("a word")?.to_owned()))
    }
}

impl fmt::Display for CSeq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.number, self.method)
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for MaxForwards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Q {
    /// Writes as few digits as possible: `1`, `0.5`, `0.125`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{}.{:03}", self.0 / 1000, self.0 % 1000);
        f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.package, self.params)
    }
}

impl fmt::Display for SubscriptionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.state, self.params)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preference_has_three_decimals() {
        for (text, thousandths, written) in [
            ("0", 0, "0"),
            ("0.", 0, "0"),
            ("0.5", 500, "0.5"),
            ("0.25", 250, "0.25"),
            ("0.125", 125, "0.125"),
            ("0.007", 7, "0.007"),
            ("1", 1000, "1"),
            ("1.000", 1000, "1"),
        ] {
            let q = Q::parse(text).unwrap();
            assert_eq!(q.thousandths(), thousandths, "{text}");
            assert_eq!(q.to_string(), written);
        }
        for text in [
            "", "2", "1.001", "0.1234", ".5", "-0", "0.5.1", "00.5", "0,5",
        ] {
            assert!(Q::parse(text).is_err(), "{text}");
        }
        assert_eq!(Q::from_thousandths(1001), Err(QFault(1001)));
    }

    #[test]
    fn sequence_numbers_have_a_method_and_an_end() {
        let read = CSeq::parse("0009  INVITE").unwrap();
        assert_eq!((read.number, read.method), (9, Method::Invite));
        for text in [
            "",
            "1",
            "INVITE 1",
            "1INVITE",
            "2147483648 INVITE",
            "1 INVITE x",
            "-1 A",
        ] {
            assert!(CSeq::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn call_ids_have_one_at_sign_at_most() {
        for text in ["a", "a@b", "intmeth.word%ZK-!.*_+'@word`~)(><:\\/\"][?}{"] {
            assert_eq!(CallId::new(text).unwrap().as_str(), text);
        }
        for text in ["", "@", "@a", "a@", "a@b@c", "a b", "a;b", "ü"] {
            assert!(CallId::new(text).is_err(), "{text}");
        }
    }

    #[test]
    fn hops_and_seconds_are_bounded() {
        assert_eq!(MaxForwards::parse("0068"), Ok(MaxForwards(68)));
        assert!(MaxForwards::parse("256").is_err());
        assert_eq!(Seconds::parse("4294967295"), Ok(Seconds(u32::MAX)));
        assert!(Seconds::parse("4294967296").is_err());
        assert!(Seconds::parse("1 x").is_err());
    }
}
