//! Vouchers: an owner's statement about a server's keys, at `https://NAME/.well-known/hawser`.
//!
//! A text of lines that end with LF or CRLF, at most [`MAX_LENGTH`] bytes. The first line is
//! `hawser 1`: the format and its version. Empty lines and lines that begin with `#` are ignored.
//! Each other line is one of these, its words separated by single blanks:
//!
//! | line | meaning | how often |
//! |---|---|---|
//! | `key KEY` | a key that the server may prove ([`PublicKey`]'s text) | 1 to 4 times |
//! | `ports PORT…` | the name's TCP ports that Hawser serves, 1 to 64 | once |
//! | `days N` | days for which a host may keep the voucher, 1 to 30; by default 7 | at most once |
//! | `none` | the name no longer has Hawser; replaces `key` and `ports` | once |
//!
//! Anything else makes the whole text invalid, so that the owner notices a mistake at once.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::identity::{ParseKeyError, PublicKey};

/// The content of a voucher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Voucher {
    /// Ports and keys of the name's Hawser; `None` if the name no longer has Hawser.
    pub bonded: Option<VouchedKeys>,
    /// Time for which a host may keep the voucher, in whole days, 1 to 30.
    pub span: Duration,
}

/// Keys of a server, and the ports where it proves them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct VouchedKeys {
    /// The server's keys, 1 to 4; it may prove any of them: two while an owner changes the key.
    pub keys: BTreeSet<PublicKey>,
    /// The server's TCP ports, 1 to 64.
    pub ports: BTreeSet<u16>,
}

/// Why a text is not a [`Voucher`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VoucherError {
    /// The text is longer than any voucher needs.
    #[error("it has more than {MAX_LENGTH} bytes")]
    TooLong,
    /// Another format, or an unknown version.
    #[error("its first line is not \"{FIRST_LINE}\"")]
    FirstLine,
    /// An unknown line, or one with invalid numbers.
    #[error("line {line} is none of: key KEY; ports PORT …; days 1 to 30; none")]
    Line {
        /// Counted from 1.
        line: usize,
    },
    /// A line with an invalid key.
    #[error("line {line}: {reason}")]
    Key {
        /// Counted from 1.
        line: usize,
        /// The fault of the key.
        reason: ParseKeyError,
    },
    /// Too many lines of a kind.
    #[error("line {line}: too many lines of this kind")]
    TooMany {
        /// Counted from 1.
        line: usize,
    },
    /// The text has neither keys with ports, nor the line `none` alone.
    #[error("a voucher needs lines with a key and with ports, or the line \"none\" instead")]
    Incomplete,
}

impl FromStr for Voucher {
    type Err = VoucherError;

    fn from_str(text: &str) -> Result<Self, VoucherError> {
        if text.len() > MAX_LENGTH {
            return Err(VoucherError::TooLong);
        }
        let mut lines = (1..).zip(text.lines());
        if lines.next().is_none_or(|(_, first)| first != FIRST_LINE) {
            return Err(VoucherError::FirstLine);
        }
        let mut parts = Parts::default();
        for (line, content) in lines {
            if !content.is_empty() && !content.starts_with('#') {
                parts.take(line, content)?;
            }
        }
        parts.complete()
    }
}

impl fmt::Display for Voucher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{FIRST_LINE}")?;
        match &self.bonded {
            None => writeln!(f, "none")?,
            Some(bonded) => {
                for key in &bonded.keys {
                    writeln!(f, "key {key}")?;
                }
                write!(f, "ports")?;
                for port in &bonded.ports {
                    write!(f, " {port}")?;
                }
                writeln!(f)?;
            }
        }
        writeln!(f, "days {}", self.span.as_secs() / DAY)
    }
}

/// The content of the lines so far.
#[derive(Default)]
struct Parts {
    keys: BTreeSet<PublicKey>,
    ports: Option<BTreeSet<u16>>,
    days: Option<u64>,
    has_none: bool,
}

impl Parts {
    fn take(&mut self, line: usize, content: &str) -> Result<(), VoucherError> {
        let wrong = VoucherError::Line { line };
        let too_many = VoucherError::TooMany { line };
        let (word, rest) = content.split_once(' ').unwrap_or((content, ""));
        let is_first = match word {
            "key" => {
                let key = rest.parse();
                let key = key.map_err(|reason| VoucherError::Key { line, reason })?;
                self.keys.insert(key) && self.keys.len() <= MAX_KEYS
            }
            "ports" => {
                let ports: Option<BTreeSet<u16>> = rest.split(' ').map(port).collect();
                let ports = ports.ok_or(wrong)?;
                ports.len() <= MAX_PORTS && self.ports.replace(ports).is_none()
            }
            "days" => {
                let days = number(rest).filter(|days| (1..=MAX_DAYS).contains(days));
                self.days.replace(days.ok_or(wrong)?).is_none()
            }
            "none" if rest.is_empty() && content == word => {
                !std::mem::replace(&mut self.has_none, true)
            }
            _ => return Err(wrong),
        };
        is_first.then_some(()).ok_or(too_many)
    }

    fn complete(self) -> Result<Voucher, VoucherError> {
        let bonded = match (self.ports, self.has_none) {
            (Some(ports), false) if !self.keys.is_empty() => Some(VouchedKeys {
                keys: self.keys,
                ports,
            }),
            (None, true) if self.keys.is_empty() => None,
            _ => return Err(VoucherError::Incomplete),
        };
        let days = self.days.unwrap_or(DEFAULT_DAYS);
        Ok(Voucher {
            bonded,
            span: Duration::from_secs(days * DAY),
        })
    }
}

fn port(text: &str) -> Option<u16> {
    number(text)
        .and_then(|it| u16::try_from(it).ok())
        .filter(|port| *port != 0)
}

/// Parses digits only: the parser of the standard library also accepts a sign.
fn number(text: &str) -> Option<u64> {
    let is_digits = text.bytes().all(|it| it.is_ascii_digit());
    is_digits.then(|| text.parse().ok()).flatten()
}

/// Most bytes of a voucher; 64 ports and four keys take a seventh of that.
pub const MAX_LENGTH: usize = 4096;
/// Longest time for which a host may keep a voucher.
pub const MAX_SPAN: Duration = Duration::from_secs(MAX_DAYS * DAY);
/// Time for which a host may keep a voucher that states none.
pub const DEFAULT_SPAN: Duration = Duration::from_secs(DEFAULT_DAYS * DAY);
const FIRST_LINE: &str = "hawser 1";
const MAX_KEYS: usize = 4;
const MAX_PORTS: usize = 64;
const DAY: u64 = 86_400;
const DEFAULT_DAYS: u64 = 7;
const MAX_DAYS: u64 = 30;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(n: u8) -> PublicKey {
        PublicKey::from_bytes([n; 32])
    }

    fn read(text: &str) -> Result<Voucher, VoucherError> {
        text.parse()
    }

    #[test]
    fn keys_and_ports_are_read_whatever_their_order_and_line_ends() {
        let (first, second) = (key(1), key(2));
        let text = format!(
            "hawser 1\r\n# Keys of www.example.org\r\n\r\nports 443 22\r\nkey {second}\r\ndays 30\r\nkey {first}"
        );
        let voucher = read(&text).unwrap();
        let bonded = VouchedKeys {
            keys: [first, second].into(),
            ports: [22, 443].into(),
        };
        assert_eq!(voucher.bonded, Some(bonded));
        assert_eq!(voucher.span, MAX_SPAN);
        let short = read(&format!("hawser 1\nkey {first}\nports 443\n")).unwrap();
        assert_eq!(short.span, DEFAULT_SPAN);
        assert_eq!(read("hawser 1\nnone\n").unwrap().bonded, None);
    }

    #[test]
    fn a_mistake_makes_it_void_and_its_line_is_named() {
        let (key, line) = (key(1), |line| Err(VoucherError::Line { line }));
        for (text, wrong) in [
            (String::new(), Err(VoucherError::FirstLine)),
            ("<!doctype html>".to_owned(), Err(VoucherError::FirstLine)),
            ("hawser 2\nnone\n".to_owned(), Err(VoucherError::FirstLine)),
            (format!("hawser 1\nkey {key}\nport 443\n"), line(3)),
            (format!("hawser 1\nkey {key}\nports 443  22\n"), line(3)),
            (format!("hawser 1\nkey {key}\nports\n"), line(3)),
            (format!("hawser 1\nkey {key}\nports 0\n"), line(3)),
            (format!("hawser 1\nkey {key}\nports +443\n"), line(3)),
            (format!("hawser 1\nkey {key}\nports 65536\n"), line(3)),
            ("hawser 1\nnone\ndays 31\n".to_owned(), line(3)),
            ("hawser 1\nnone\ndays 0\n".to_owned(), line(3)),
            ("hawser 1\nnone at all\n".to_owned(), line(2)),
            ("hawser 1\nnone \n".to_owned(), line(2)),
            (
                "hawser 1\nnone\ndays 1\ndays 1\n".to_owned(),
                Err(VoucherError::TooMany { line: 4 }),
            ),
            (
                "hawser 1\nkey short\n".to_owned(),
                Err(VoucherError::Key {
                    line: 2,
                    reason: ParseKeyError::Length { got: 5 },
                }),
            ),
            (
                format!("hawser 1\nkey {key}\nkey {key}\nports 1\n"),
                Err(VoucherError::TooMany { line: 3 }),
            ),
            (
                format!("hawser 1\nkey {key}\nports 1\nnone\n"),
                Err(VoucherError::Incomplete),
            ),
            (
                format!("hawser 1\nkey {key}\n"),
                Err(VoucherError::Incomplete),
            ),
            (
                "hawser 1\nports 443\n".to_owned(),
                Err(VoucherError::Incomplete),
            ),
            (
                format!("hawser 1\nnone\n#{}\n", "x".repeat(MAX_LENGTH)),
                Err(VoucherError::TooLong),
            ),
        ] {
            assert_eq!(read(&text), wrong, "{text}");
        }
        let many = |count: u16| {
            let ports: Vec<String> = (1..=count).map(|port| port.to_string()).collect();
            read(&format!("hawser 1\nkey {key}\nports {}\n", ports.join(" ")))
        };
        assert!(many(64).is_ok());
        assert_eq!(many(65), Err(VoucherError::TooMany { line: 3 }));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            keys in prop::collection::btree_set(any::<[u8; 32]>(), 1..=4),
            ports in prop::collection::btree_set(1..=u16::MAX, 1..=64),
            days in 1..=MAX_DAYS,
            has_some in any::<bool>(),
        ) {
            let keys = keys.into_iter().map(PublicKey::from_bytes).collect();
            let bonded = has_some.then_some(VouchedKeys { keys, ports });
            let voucher = Voucher { bonded, span: Duration::from_secs(days * DAY) };
            let text = voucher.to_string();
            prop_assert!(text.len() <= MAX_LENGTH);
            prop_assert_eq!(text.parse(), Ok(voucher));
        }

        #[test]
        fn whatever_is_read_means_the_same_when_written(text in "(hawser 1\n)?([a-z# 0-9]{0,9}\n){0,5}") {
            if let Ok(voucher) = text.parse::<Voucher>() {
                prop_assert_eq!(voucher.to_string().parse(), Ok(voucher));
            }
        }
    }
}
