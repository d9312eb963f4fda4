//! Challenges and credentials as header fields (RFC 7616 §3.3, §3.4).

use std::fmt;

use super::{Algorithm, Challenge, Counted, Credentials, DigestFault};
use crate::cursor::{Cursor, SyntaxFault, quote};

impl Challenge {
    /// Reads the value of WWW-Authenticate or Proxy-Authenticate.
    ///
    /// # Errors
    /// See [`DigestFault`]. Other challenges of the same response may still be understood.
    pub fn parse(text: &str) -> Result<Self, DigestFault> {
        let params = Pairs::parse(text)?;
        let offered = params.value("qop");
        let has_qop = offered.is_some_and(|qop| qop.split(',').any(|word| is(word.trim(), "auth")));
        match offered {
            Some(qop) if !has_qop => return Err(DigestFault::Qop(qop.to_owned())),
            _ => {}
        }
        Ok(Self {
            realm: params.needed("realm")?,
            nonce: params.needed("nonce")?,
            opaque: params.value("opaque").map(str::to_owned),
            algorithm: params.algorithm()?,
            has_qop,
            is_stale: params.value("stale").is_some_and(|text| is(text, "true")),
        })
    }
}

impl fmt::Display for Challenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (realm, nonce) = (quote(&self.realm), quote(&self.nonce));
        write!(f, "Digest realm={realm}, nonce={nonce}")?;
        if let Some(opaque) = &self.opaque {
            write!(f, ", opaque={}", quote(opaque))?;
        }
        write!(f, ", algorithm={}", self.algorithm.as_str())?;
        if self.has_qop {
            f.write_str(", qop=\"auth\"")?;
        }
        if self.is_stale {
            f.write_str(", stale=true")
        } else {
            Ok(())
        }
    }
}

impl Credentials {
    /// Reads the value of Authorization or Proxy-Authorization.
    ///
    /// # Errors
    /// See [`DigestFault`].
    pub fn parse(text: &str) -> Result<Self, DigestFault> {
        let params = Pairs::parse(text)?;
        let counted = match params.value("qop") {
            None => None,
            Some(qop) if is(qop, "auth") => Some(Counted {
                count: count(&params.needed("nc")?)?,
                cnonce: params.needed("cnonce")?,
            }),
            Some(other) => return Err(DigestFault::Qop(other.to_owned())),
        };
        Ok(Self {
            username: params.needed("username")?,
            realm: params.needed("realm")?,
            nonce: params.needed("nonce")?,
            uri: params.needed("uri")?,
            response: params.needed("response")?,
            algorithm: params.algorithm()?,
            opaque: params.value("opaque").map(str::to_owned),
            counted,
        })
    }
}

impl fmt::Display for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = [
            ("username", &self.username),
            ("realm", &self.realm),
            ("nonce", &self.nonce),
            ("uri", &self.uri),
            ("response", &self.response),
        ];
        for (number, (name, value)) in quoted.into_iter().enumerate() {
            let before = if number == 0 { "Digest " } else { ", " };
            write!(f, "{before}{name}={}", quote(value))?;
        }
        write!(f, ", algorithm={}", self.algorithm.as_str())?;
        if let Some(opaque) = &self.opaque {
            write!(f, ", opaque={}", quote(opaque))?;
        }
        if let Some(Counted { count, cnonce }) = &self.counted {
            write!(f, ", qop=auth, nc={count:08x}, cnonce={}", quote(cnonce))?;
        }
        Ok(())
    }
}

/// Reads eight hexadecimal digits.
fn count(text: &str) -> Result<u32, SyntaxFault> {
    let is_count = text.len() == 8 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
    let count = u32::from_str_radix(text, 16).ok().filter(|_| is_count);
    count.ok_or(SyntaxFault::Expected("eight hexadecimal digits as nc"))
}

fn is(text: &str, word: &str) -> bool {
    text.eq_ignore_ascii_case(word)
}

/// `Digest name=value, name="value"`.
struct Pairs(Vec<(String, String)>);

impl Pairs {
    fn parse(text: &str) -> Result<Self, DigestFault> {
        let mut cursor = Cursor::new(text);
        cursor.skip_space();
        let scheme = cursor.token("a scheme")?;
        if !is(scheme, "Digest") {
            return Err(DigestFault::Scheme(scheme.to_owned()));
        }
        if !matches!(cursor.peek(), Some(b' ' | b'\t')) {
            return Err(SyntaxFault::Expected("a space behind Digest").into());
        }
        cursor.skip_space();
        let mut pairs = Self(Vec::new());
        loop {
            pairs.read(&mut cursor)?;
            if !cursor.eat(',') {
                cursor.end()?;
                return Ok(pairs);
            }
        }
    }

    fn read(&mut self, cursor: &mut Cursor<'_>) -> Result<(), SyntaxFault> {
        let name = cursor.token("the name of a parameter")?;
        if !cursor.eat('=') {
            return Err(SyntaxFault::Expected("="));
        }
        let value = match cursor.peek() {
            Some(b'"') => cursor.quoted()?,
            _ => cursor.token("the value of a parameter")?.to_owned(),
        };
        if self.value(name).is_some() {
            return Err(SyntaxFault::Repeated(name.to_owned()));
        }
        if self.0.len() == MAX_PAIRS {
            return Err(SyntaxFault::TooMany(MAX_PAIRS));
        }
        self.0.push((name.to_owned(), value));
        Ok(())
    }

    fn value(&self, name: &str) -> Option<&str> {
        let mut pairs = self.0.iter();
        let found = pairs.find(|(other, _)| is(other, name));
        found.map(|(_, value)| value.as_str())
    }

    fn needed(&self, name: &'static str) -> Result<String, DigestFault> {
        let value = self.value(name).ok_or(DigestFault::Missing(name))?;
        Ok(value.to_owned())
    }

    /// Returns the algorithm, by default MD5 (RFC 7616 §3.3).
    fn algorithm(&self) -> Result<Algorithm, DigestFault> {
        let name = self.value("algorithm").unwrap_or("MD5");
        Algorithm::named(name).ok_or_else(|| DigestFault::Algorithm(name.to_owned()))
    }
}

const MAX_PAIRS: usize = 32;
