//! From, To, Contact, Route, Record-Route and Path: a URI with a name and parameters.

use std::fmt;

use super::{Field, Q, Seconds};
use crate::cursor::{Cursor, SyntaxFault, is_token, quote};
use crate::params::Params;
use crate::uri::Uri;

/// `"Alice" <sip:alice@example.org>;tag=1` (RFC 3261 §20.10).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameAddr {
    /// Display name, without quotation marks.
    pub display: Option<String>,
    /// Identity or location.
    pub uri: Uri,
    /// Parameters of the header field, not of the URI.
    pub params: Params,
}

/// All Contact header fields of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contacts {
    /// `*`: all contacts, in a REGISTER that removes them.
    All,
    /// A list, empty without such a header field.
    List(Vec<NameAddr>),
}

impl NameAddr {
    /// Creates one from a URI alone.
    #[must_use]
    pub fn new(uri: Uri) -> Self {
        Self {
            display: None,
            uri,
            params: Params::default(),
        }
    }

    /// Returns the tag of From or To.
    #[must_use]
    pub fn tag(&self) -> Option<&str> {
        self.params.value("tag")
    }

    /// Returns `q`, the preference among contacts.
    ///
    /// # Errors
    /// When it is present and is no number from 0 to 1 with at most three decimals.
    pub fn q(&self) -> Result<Option<Q>, SyntaxFault> {
        self.params.value("q").map(Q::parse).transpose()
    }

    /// Returns `expires`, for how long a contact is valid.
    ///
    /// # Errors
    /// When it is present and is no whole number of seconds below 2^32.
    pub fn expires(&self) -> Result<Option<Seconds>, SyntaxFault> {
        let value = self.params.value("expires");
        value.map(Seconds::parse).transpose()
    }
}

impl Field for NameAddr {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self, SyntaxFault> {
        let (display, is_bracketed) = read_display(cursor)?;
        let uri = if is_bracketed {
            let uri = cursor.take_until(&['>']).parse()?;
            if !cursor.eat_exactly(">") {
                return Err(SyntaxFault::Expected(">"));
            }
            uri
        } else {
            // Parameters belong to the header field, and the URI must have neither comma nor
            // question mark (RFC 3261 §20.10).
            let text = cursor.take_until(&[';', ',', ' ', '\t']);
            if text.contains('?') {
                return Err(SyntaxFault::Expected("< around a URI with a question mark"));
            }
            text.parse()?
        };
        let params = Params::read(cursor)?;
        Ok(Self {
            display,
            uri,
            params,
        })
    }
}

impl fmt::Display for NameAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(display) = &self.display {
            write!(f, "{} ", quote(display))?;
        }
        write!(f, "<{}>{}", self.uri, self.params)
    }
}

/// Reads the optional name before the URI. Returns whether a `<` follows it.
fn read_display(cursor: &mut Cursor<'_>) -> Result<(Option<String>, bool), SyntaxFault> {
    if cursor.peek() == Some(b'"') {
        let display = cursor.quoted()?;
        return if cursor.eat('<') {
            Ok((Some(display), true))
        } else {
            Err(SyntaxFault::Expected("<"))
        };
    }
    let mut ahead = *cursor;
    let words = ahead.take_while(|byte| is_token(byte) || byte == b' ' || byte == b'\t');
    if !ahead.eat_exactly("<") {
        return Ok((None, false));
    }
    ahead.skip_space();
    *cursor = ahead;
    let words = words.trim_matches([' ', '\t']);
    Ok(((!words.is_empty()).then(|| words.to_owned()), true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_parameters_are_separated_from_the_uri() {
        for (text, display, uri, params) in [
            ("sip:a@b;tag=1", None, "sip:a@b", ";tag=1"),
            ("<sip:a@b;x=1>;tag=1", None, "sip:a@b;x=1", ";tag=1"),
            ("Bob  Ray<sip:a@b>", Some("Bob  Ray"), "sip:a@b", ""),
            (
                "\"B <x> \\\"\" <sip:a@b> ; tag=1",
                Some("B <x> \""),
                "sip:a@b",
                ";tag=1",
            ),
            ("<sip:a,b;c@d?e=f>", None, "sip:a,b;c@d?e=f", ""),
            ("\"\" <sip:a@b>", Some(""), "sip:a@b", ""),
        ] {
            let read = NameAddr::parse(text).unwrap_or_else(|fault| panic!("{text}: {fault}"));
            assert_eq!(read.display.as_deref(), display, "{text}");
            assert_eq!(read.uri.to_string(), uri, "{text}");
            assert_eq!(read.params.to_string(), params, "{text}");
            assert_eq!(NameAddr::parse(&read.to_string()).unwrap(), read, "{text}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "",
            "<",
            "<>",
            "<sip:a@b",
            "sip:a@b>",
            "\"x <sip:a@b>",
            "\"x\" sip:a@b",
            "Watson, T <sip:a@b>",
            "sip:a@b?c=d",
            "<sip:a@b> x",
            "<sip:a@b>;",
            "< sip:a@b >",
            "Bell, A <sip:a@b>",
            "a;b <sip:a@b>",
            "\"Joe\" <sip:a b@c>",
        ] {
            assert!(NameAddr::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_list_is_read_to_its_end() {
        let mut list = Vec::new();
        let text = "<sip:a@b>;q=0.5 , \"c, d\" <sip:e@f>, sip:g@h;q=1.000";
        NameAddr::parse_list(text, &mut list).unwrap();
        let q: Vec<_> = list.iter().map(|entry| entry.q().unwrap()).collect();
        let q_of = |thousandths| Some(Q::from_thousandths(thousandths).unwrap());
        assert_eq!(q, [q_of(500), None, q_of(1000)]);
        for text in ["", "<sip:a@b>,", ",<sip:a@b>", "<sip:a@b> x,<sip:c@d>"] {
            assert!(NameAddr::parse_list(text, &mut list).is_err(), "{text}");
        }
    }
}
