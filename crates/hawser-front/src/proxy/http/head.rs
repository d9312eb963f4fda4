use super::fields::MAX_FIELDS;
use crate::proxy::parse::{Malformed, Parse};

/// The minor version of HTTP/1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// HTTP/1.0: no chunked coding, no interim responses, one request per connection.
    Http10,
    /// HTTP/1.1.
    Http11,
}

impl Version {
    pub(super) const fn from_minor(minor: u8) -> Self {
        match minor {
            0 => Self::Http10,
            _ => Self::Http11,
        }
    }
}

/// Finds the end of a header block. It reads each byte once, however slowly the bytes arrive.
#[derive(Debug, Default)]
pub struct HeadScanner {
    scanned: usize,
}

impl HeadScanner {
    /// Starts at the beginning of a header block.
    pub const fn new() -> Self {
        Self { scanned: 0 }
    }

    /// Returns the header block at the start of `bytes`, which extend those of the previous call.
    /// Empty lines ahead of the block count in its length, not in its content (RFC 9112 §2.2).
    pub fn scan<'a>(&mut self, bytes: &'a [u8]) -> Parse<&'a [u8]> {
        let is_line_end = |byte: &&u8| matches!(byte, b'\r' | b'\n');
        let lead = bytes
            .iter()
            .take(MAX_LEADING_LINE_ENDS + 1)
            .take_while(is_line_end)
            .count();
        if lead > MAX_LEADING_LINE_ENDS {
            return Parse::Malformed(Malformed::Header);
        }
        let mut position = self.scanned.max(lead);
        let line_end = |rest: &[u8]| rest.iter().position(|&byte| byte == b'\n');
        while let Some(found) = bytes.get(position..).and_then(line_end) {
            position += found + 1;
            let rest = bytes.get(position..).unwrap_or_default();
            let blank = match rest {
                [b'\n', ..] => 1,
                [b'\r', b'\n', ..] => 2,
                // Not decided yet: the next call resumes at this line end.
                [] | [b'\r'] => {
                    position -= 1;
                    break;
                }
                _ => continue,
            };
            let consumed = position + blank;
            return match bytes.get(lead..consumed) {
                Some(head) if consumed <= MAX_HEAD_LENGTH => Parse::Parsed {
                    value: head,
                    consumed,
                },
                _ => Parse::Malformed(Malformed::HeaderTooLarge),
            };
        }
        self.scanned = match bytes.get(position) {
            Some(b'\n') => position,
            _ => bytes.len(),
        };
        if bytes.len() > MAX_HEAD_LENGTH {
            return Parse::Malformed(Malformed::HeaderTooLarge);
        }
        Parse::Incomplete
    }
}

pub(super) fn malformed_by(error: httparse::Error) -> Malformed {
    match error {
        httparse::Error::TooManyHeaders => Malformed::HeaderTooLarge,
        httparse::Error::Version => Malformed::Version,
        _ => Malformed::Header,
    }
}

pub(super) const NO_FIELDS: [httparse::Header<'static>; MAX_FIELDS] =
    [httparse::EMPTY_HEADER; MAX_FIELDS];

/// The longest header block that is read, in bytes.
pub const MAX_HEAD_LENGTH: usize = 64 * 1024;

const MAX_LEADING_LINE_ENDS: usize = 16;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn whole(bytes: &[u8]) -> Parse<&[u8]> {
        HeadScanner::new().scan(bytes)
    }

    #[test]
    fn the_blank_line_ends_the_block() {
        assert_eq!(whole(b"GET / HTTP/1.1\r\nA: b\r\n\r\nrest").unwrap().1, 24);
        assert_eq!(whole(b"GET /\n\nrest").unwrap().1, 7);
        assert_eq!(
            whole(b"\r\n\r\nGET /\r\n\r\n").unwrap(),
            (&b"GET /\r\n\r\n"[..], 13)
        );
        assert_eq!(whole(b"GET /\r\n\r"), Parse::Incomplete);
        assert_eq!(whole(b""), Parse::Incomplete);
    }

    #[test]
    fn blocks_without_end_are_refused() {
        let endless = vec![b'a'; MAX_HEAD_LENGTH + 1];
        assert_eq!(whole(&endless).malformed(), Malformed::HeaderTooLarge);
        assert_eq!(whole(&[b'\n'; 17]).malformed(), Malformed::Header);
    }

    proptest! {
        #[test]
        fn byte_by_byte_finds_what_a_single_look_finds(bytes in "[\r\nab]{0,60}") {
            let bytes = bytes.as_bytes();
            let mut scanner = HeadScanner::new();
            let mut found = Parse::Incomplete;
            for end in 0..=bytes.len() {
                found = scanner.scan(&bytes[..end]);
                if found != Parse::Incomplete {
                    break;
                }
            }
            prop_assert_eq!(found, whole(bytes));
        }
    }
}
