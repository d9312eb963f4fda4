//! Escapes such as `%40` (RFC 3261 §19.1.2).

use crate::cursor::{Cursor, SyntaxFault};

/// Takes the longest run of allowed bytes and escapes, and returns it with its escapes.
pub(super) fn read_escaped<'a>(
    cursor: &mut Cursor<'a>,
    is_allowed: impl Fn(u8) -> bool,
) -> Result<&'a str, SyntaxFault> {
    let start = cursor.rest();
    loop {
        cursor.take_while(&is_allowed);
        let mut ahead = *cursor;
        if !ahead.eat_exactly("%") {
            let length = start.len() - cursor.rest().len();
            return Ok(&start[..length]);
        }
        for _ in 0..2 {
            let digit = ahead.peek().filter(u8::is_ascii_hexdigit);
            let Some(digit) = digit else {
                return Err(SyntaxFault::Escape);
            };
            ahead.eat_exactly(char::from(digit).encode_utf8(&mut [0; 4]));
        }
        *cursor = ahead;
    }
}

/// Returns a text without its escapes. `None` if an escape is broken, or if the result is no UTF-8
/// or has control characters, which no honest sender uses.
#[must_use]
pub fn unescape(text: &str) -> Option<String> {
    let plain = String::from_utf8(bytes(text).collect::<Option<Vec<_>>>()?).ok()?;
    (!plain.chars().any(char::is_control)).then_some(plain)
}

/// Returns the text with only the necessary escapes, in upper case, so that equivalent texts become
/// equal.
pub(super) fn normalized(text: &str) -> String {
    let mut normal = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let escaped = rest.get(1..3).filter(|_| first == '%');
        let byte = escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match byte {
            Some(byte) if is_unreserved(byte) => normal.push(char::from(byte)),
            Some(byte) => normal.push_str(&format!("%{byte:02X}")),
            None => normal.push(first),
        }
        rest = &rest[if byte.is_some() { 3 } else { first.len_utf8() }..];
    }
    normal
}

/// RFC 3261 §25.1 `unreserved`.
pub(super) fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.!~*'()".contains(&byte)
}

fn bytes(text: &str) -> impl Iterator<Item = Option<u8>> + '_ {
    let mut rest = text.as_bytes();
    std::iter::from_fn(move || {
        let (first, behind) = rest.split_first()?;
        if *first != b'%' {
            rest = behind;
            return Some(Some(*first));
        }
        let digits = behind
            .get(..2)
            .and_then(|two| std::str::from_utf8(two).ok());
        let digits = digits.filter(|two| two.bytes().all(|digit| digit.is_ascii_hexdigit()));
        rest = behind.get(2..).unwrap_or_default();
        Some(digits.and_then(|two| u8::from_str_radix(two, 16).ok()))
    })
}
