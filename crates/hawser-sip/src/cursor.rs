//! Reads header fields token by token (RFC 3261 §25.1). Folded lines are joined beforehand.

use std::mem;

use thiserror::Error;

/// A fault in a header field or URI against the grammar of RFC 3261 §25.1.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SyntaxFault {
    /// This element was expected, but another one was found.
    #[error("{0} was expected")]
    Expected(&'static str),
    /// A quoted string has no end.
    #[error("a quotation mark is missing")]
    UnclosedQuote,
    /// A percent sign is not followed by two hexadecimal digits.
    #[error("% must be followed by two hexadecimal digits")]
    Escape,
    /// A number is above its maximum.
    #[error("{what} is above {max}")]
    TooLarge {
        /// The number's meaning.
        what: &'static str,
        /// The largest one that is allowed.
        max: u64,
    },
    /// A parameter occurs twice.
    #[error("the parameter {0} stands there twice")]
    Repeated(String),
    /// A list has more entries than allowed.
    #[error("more than {0} entries in a list")]
    TooMany(usize),
}

/// The rest of a text that is being read.
#[derive(Clone, Copy)]
pub(crate) struct Cursor<'a> {
    rest: &'a str,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { rest: text }
    }

    pub(crate) fn rest(&self) -> &'a str {
        self.rest
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn peek(&self) -> Option<u8> {
        self.rest.as_bytes().first().copied()
    }

    pub(crate) fn skip_space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
    }

    /// Takes `mark` with space around it. Returns whether `mark` was there; if not, takes nothing.
    pub(crate) fn eat(&mut self, mark: char) -> bool {
        let trimmed = self.rest.trim_start_matches([' ', '\t']);
        let Some(rest) = trimmed.strip_prefix(mark) else {
            return false;
        };
        self.rest = rest;
        self.skip_space();
        true
    }

    /// Takes `mark` without any space. Returns whether `mark` was there; if not, takes nothing.
    pub(crate) fn eat_exactly(&mut self, mark: &str) -> bool {
        match self.rest.strip_prefix(mark) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// Takes the longest run of allowed bytes, which must be ASCII.
    pub(crate) fn take_while(&mut self, is_allowed: impl Fn(u8) -> bool) -> &'a str {
        let bytes = self.rest.as_bytes();
        let end = bytes.iter().position(|byte| !is_allowed(*byte));
        let (taken, rest) = self.rest.split_at(end.unwrap_or(bytes.len()));
        self.rest = rest;
        taken
    }

    /// Takes everything before the first of these characters, or all of it.
    pub(crate) fn take_until(&mut self, ends: &[char]) -> &'a str {
        let end = self.rest.find(ends).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    pub(crate) fn token(&mut self, what: &'static str) -> Result<&'a str, SyntaxFault> {
        match self.take_while(is_token) {
            "" => Err(SyntaxFault::Expected(what)),
            token => Ok(token),
        }
    }

    /// Takes a quoted string and returns its value, without quotation marks and backslashes.
    pub(crate) fn quoted(&mut self) -> Result<String, SyntaxFault> {
        let mut text = String::new();
        let mut characters = self
            .rest
            .strip_prefix('"')
            .ok_or(SyntaxFault::Expected("a quoted string"))?
            .chars();
        loop {
            match characters.next().ok_or(SyntaxFault::UnclosedQuote)? {
                '"' => break,
                '\\' => {
                    let escaped = characters.next().ok_or(SyntaxFault::UnclosedQuote)?;
                    if !escaped.is_ascii() {
                        return Err(SyntaxFault::Expected(
                            "an ASCII character behind a backslash",
                        ));
                    }
                    text.push(escaped);
                }
                other => text.push(other),
            }
        }
        self.rest = characters.as_str();
        Ok(text)
    }

    /// Takes a decimal number without a sign.
    pub(crate) fn number(&mut self, what: &'static str, max: u64) -> Result<u64, SyntaxFault> {
        let digits = self.take_while(|byte| byte.is_ascii_digit());
        if digits.is_empty() {
            return Err(SyntaxFault::Expected(what));
        }
        match digits.parse() {
            Ok(number) if number <= max => Ok(number),
            _ => Err(SyntaxFault::TooLarge { what, max }),
        }
    }

    /// Fails unless only space is left.
    pub(crate) fn end(mut self) -> Result<(), SyntaxFault> {
        self.skip_space();
        if self.is_at_end() {
            Ok(())
        } else {
            Err(SyntaxFault::Expected("the end of the field"))
        }
    }
}

/// Writes a text as a quoted string.
pub(crate) fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        if matches!(character, '"' | '\\') || character.is_ascii_control() {
            quoted.push('\\');
        }
        quoted.push(character);
    }
    quoted.push('"');
    quoted
}

/// RFC 3261 §25.1 `token`.
pub(crate) fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-.!%*_+`'~".contains(&byte)
}

/// Whether a text may be the value of a header field: control characters other than tab must follow
/// a backslash, as in quoted strings; line ends are never allowed.
pub(crate) fn is_field_text(text: &str) -> bool {
    let mut last = b' ';
    text.bytes().all(|byte| {
        let is_escaped = mem::replace(&mut last, byte) == b'\\';
        match byte {
            b'\r' | b'\n' => false,
            b'\t' => true,
            other => is_escaped || !other.is_ascii_control(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_string_is_read_as_it_was_written() {
        for text in ["", "plain", "a \"b\" \\ c", "ü"] {
            let written = quote(text) + " rest";
            let mut cursor = Cursor::new(&written);
            assert_eq!(cursor.quoted().unwrap(), text);
            assert_eq!(cursor.rest(), " rest");
        }
    }

    #[test]
    fn a_quoted_string_without_its_end_is_refused() {
        for text in ["\"a", "\"a\\", "\"a\\\""] {
            let read = Cursor::new(text).quoted();
            assert_eq!(read, Err(SyntaxFault::UnclosedQuote), "{text}");
        }
    }

    #[test]
    fn numbers_have_digits_only_and_a_limit() {
        let read = |text| Cursor::new(text).number("a port", 65535);
        assert_eq!(read("0065535"), Ok(65535));
        assert_eq!(read("+1"), Err(SyntaxFault::Expected("a port")));
        let max = 65535;
        let what = "a port";
        let above = Err(SyntaxFault::TooLarge { what, max });
        assert_eq!(read("65536"), above);
        assert_eq!(read("99999999999999999999999"), above);
    }
}
