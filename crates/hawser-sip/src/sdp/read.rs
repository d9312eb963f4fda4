//! Parsing of descriptions.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{
    CANDIDATE, Candidate, Description, KEY, MAX_CANDIDATES, MAX_DESCRIPTION, MEDIA, SIGNATURE,
    SdpFault, Signed,
};
use crate::cursor::{Cursor, is_field_text};
use crate::fields::Field;

impl Signed {
    /// Parses a description.
    ///
    /// # Errors
    /// See [`SdpFault`].
    pub fn parse(bytes: &[u8]) -> Result<Self, SdpFault> {
        if bytes.len() > MAX_DESCRIPTION {
            return Err(SdpFault::TooLong(bytes.len()));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| SdpFault::NotText)?;
        let body = text.strip_suffix("\r\n").ok_or(SdpFault::NotText)?;
        let lines: Vec<&str> = body.split("\r\n").collect();
        if !lines.iter().all(|line| is_field_text(line)) {
            return Err(SdpFault::NotText);
        }
        // The signature is the last line, and covers all other lines.
        let (last, lines) = lines.split_last().ok_or(SdpFault::NotText)?;
        let signature = attribute(last, SIGNATURE).and_then(|text| STANDARD.decode(text).ok());
        let signature = signature.ok_or(SdpFault::Attribute(SIGNATURE))?;
        let covered = &text[..text.len() - last.len() - 2];
        let description = Reader::default().read(lines)?;
        Ok(Self {
            description,
            signature,
            text: covered.to_owned(),
        })
    }
}

#[derive(Default)]
struct Reader {
    key: Option<Vec<u8>>,
    candidates: Vec<Candidate>,
}

impl Reader {
    fn read(mut self, lines: &[&str]) -> Result<Description, SdpFault> {
        let mut lines = lines.iter().copied().enumerate();
        let mut next = |expected| match lines.next() {
            Some((number, line)) => Ok((number + 1, line)),
            None => Err(SdpFault::Line { line: 0, expected }),
        };
        let is = |(line, text): (usize, &str), expected: &'static str| {
            if text == expected {
                Ok(())
            } else {
                Err(SdpFault::Line { line, expected })
            }
        };
        is(next("v=0")?, "v=0")?;
        let (session, version) = origin(next("o=")?)?;
        is(next("s=-")?, "s=-")?;
        is(next("t=0 0")?, "t=0 0")?;
        is(next(MEDIA)?, MEDIA)?;
        is(next("c=IN IP4 0.0.0.0")?, "c=IN IP4 0.0.0.0")?;
        for (number, line) in lines {
            self.read_attribute(number + 1, line)?;
        }
        Ok(Description {
            session,
            version,
            key: self.key.ok_or(SdpFault::Attribute(KEY))?,
            candidates: self.candidates,
        })
    }

    /// Unknown attributes are ignored (RFC 8866 §5.13).
    fn read_attribute(&mut self, line: usize, text: &str) -> Result<(), SdpFault> {
        if !text.starts_with("a=") {
            let expected = "an attribute";
            return Err(SdpFault::Line { line, expected });
        }
        if let Some(value) = attribute(text, CANDIDATE) {
            if self.candidates.len() == MAX_CANDIDATES {
                return Err(SdpFault::TooManyCandidates);
            }
            let candidate = candidate(value);
            let candidate = candidate.map_err(|fault| SdpFault::Candidate { line, fault })?;
            self.candidates.push(candidate);
        } else if let Some(value) = attribute(text, KEY) {
            let key = STANDARD.decode(value).ok();
            if key.is_none() || self.key.is_some() {
                return Err(SdpFault::Attribute(KEY));
            }
            self.key = key;
        } else if attribute(text, SIGNATURE).is_some() {
            return Err(SdpFault::Attribute(SIGNATURE));
        }
        Ok(())
    }
}

fn candidate(value: &str) -> Result<Candidate, crate::SyntaxFault> {
    let mut cursor = Cursor::new(value);
    Candidate::read(&mut cursor)
}

/// Returns the value of the line if it is this attribute.
fn attribute<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let rest = line.strip_prefix("a=")?.strip_prefix(name)?;
    rest.strip_prefix(':')
}

/// `o=hawser SESSION VERSION IN IP4 0.0.0.0`
fn origin((line, text): (usize, &str)) -> Result<(u64, u64), SdpFault> {
    let expected = "o=hawser, two numbers, and IN IP4 0.0.0.0";
    let read = || {
        let rest = text.strip_prefix("o=hawser ")?;
        let (session, rest) = rest.split_once(' ')?;
        let (version, rest) = rest.split_once(' ')?;
        (rest == "IN IP4 0.0.0.0").then_some(())?;
        Some((number(session)?, number(version)?))
    };
    read().ok_or(SdpFault::Line { line, expected })
}

fn number(text: &str) -> Option<u64> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}
