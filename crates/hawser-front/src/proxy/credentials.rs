//! The user name and password that a proxy port asks its clients for.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use subtle::{Choice, ConstantTimeEq as _};
use zeroize::Zeroizing;

/// A user name and its password. Comparing takes as long for a wrong one as for the right one.
pub struct Credentials {
    user: Padded,
    password: Padded,
}

impl Credentials {
    /// Reads one line `USER:PASSWORD`, whose end may be missing. Each part has 1 to 255 bytes, as
    /// SOCKS5 allows, and no control characters; the first colon ends the name.
    ///
    /// # Errors
    /// The fault in the line, without any part of the line.
    pub fn parse(text: &str) -> Result<Self, CredentialsError> {
        let line = text.strip_suffix('\n').unwrap_or(text);
        let line = line.strip_suffix('\r').unwrap_or(line);
        if line.contains(char::is_control) {
            return Err(CredentialsError::Characters);
        }
        let (user, password) = line.split_once(':').ok_or(CredentialsError::Colon)?;
        let padded = |part: &str| {
            let padded = Padded::of(part.as_bytes()).filter(|_| !part.is_empty());
            padded.ok_or(CredentialsError::Length)
        };
        Ok(Self {
            user: padded(user)?,
            password: padded(password)?,
        })
    }

    /// Tells whether these are the user name and the password.
    pub(super) fn admits(&self, user: &[u8], password: &[u8]) -> bool {
        match (Padded::of(user), Padded::of(password)) {
            (Some(user), Some(password)) => {
                (self.user.is(&user) & self.password.is(&password)).into()
            }
            _ => false,
        }
    }

    /// Checks the value of `Proxy-Authorization`, in the scheme Basic.
    ///
    /// Source: RFC 7617 §2.
    pub(super) fn admits_basic(&self, value: &[u8]) -> bool {
        let Some((scheme, rest)) = value.split_at_checked(SCHEME.len()) else {
            return false;
        };
        let encoded = rest.trim_ascii();
        if !scheme.eq_ignore_ascii_case(SCHEME) || encoded.len() > MAX_ENCODED {
            return false;
        }
        let Ok(decoded) = STANDARD.decode(encoded).map(Zeroizing::new) else {
            return false;
        };
        let colon = decoded.iter().position(|byte| *byte == b':');
        let parts = colon.and_then(|at| decoded.split_at_checked(at));
        parts.is_some_and(|(user, rest)| self.admits(user, rest.get(1..).unwrap_or_default()))
    }
}

impl fmt::Debug for Credentials {
    /// Shows neither the user name nor the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

/// Why a text has no user name and password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CredentialsError {
    /// The line has no colon.
    #[error("expected one line USER:PASSWORD")]
    Colon,
    /// The text has control characters, or more than one line.
    #[error("expected one line USER:PASSWORD without control characters")]
    Characters,
    /// A part is empty or longer than SOCKS5 allows.
    #[error("expected a user name and a password of 1 to 255 bytes each")]
    Length,
}

/// At most 255 bytes, with their number before and zeros after them, so that all have one length.
struct Padded(Zeroizing<[u8; 256]>);

impl Padded {
    fn of(bytes: &[u8]) -> Option<Self> {
        let mut padded = Zeroizing::new([0; 256]);
        let (length, room) = padded.split_first_mut()?;
        *length = u8::try_from(bytes.len()).ok()?;
        room.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(Self(padded))
    }

    fn is(&self, other: &Self) -> Choice {
        self.0.ct_eq(&*other.0)
    }
}

const SCHEME: &[u8] = b"Basic ";
/// Two parts of 255 bytes and a colon.
const MAX_ENCODED: usize = 684;

#[cfg(test)]
mod tests {
    use super::*;

    fn credentials() -> Credentials {
        Credentials::parse("Aladdin:open sesame\n").unwrap()
    }

    #[test]
    fn only_the_right_name_and_password_are_admitted() {
        let ours = credentials();
        assert!(ours.admits(b"Aladdin", b"open sesame"));
        for (user, password) in [
            ("Aladdin", "open sesam"),
            ("Aladdin", "open sesame\0"),
            ("Aladdin", "Open sesame"),
            ("aladdin", "open sesame"),
            ("Aladdi", "nopen sesame"),
            ("", ""),
            ("Aladdin", ""),
            ("", "open sesame"),
        ] {
            assert!(!ours.admits(user.as_bytes(), password.as_bytes()));
        }
        assert!(!ours.admits(&[b'a'; 300], &[0; 300]));
    }

    #[test]
    fn basic_credentials_are_those_of_the_rfc() {
        let ours = credentials();
        assert!(ours.admits_basic(b"Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="));
        assert!(ours.admits_basic(b"bAsIc   QWxhZGRpbjpvcGVuIHNlc2FtZQ== "));
        for wrong in [
            &b""[..],
            b"Basic",
            b"Basic ",
            b"Basic !",
            b"Basic QWxhZGRpbg==",
            b"Bearer QWxhZGRpbjpvcGVuIHNlc2FtZQ==",
            b"BasicQWxhZGRpbjpvcGVuIHNlc2FtZQ==",
            b"Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ== QQ==",
            &[b'A'; 2000],
        ] {
            assert!(!ours.admits_basic(wrong));
        }
        let colons = Credentials::parse("u:a:b").unwrap();
        assert!(colons.admits(b"u", b"a:b") && colons.admits_basic(b"Basic dTphOmI="));
    }

    #[test]
    fn a_file_that_has_no_credentials_says_why_and_shows_nothing_of_it() {
        let why = |text: &str| Credentials::parse(text).unwrap_err();
        assert_eq!(why("secret"), CredentialsError::Colon);
        assert_eq!(why(""), CredentialsError::Colon);
        assert_eq!(why("a:b\nc:d\n"), CredentialsError::Characters);
        assert_eq!(why(":b"), CredentialsError::Length);
        assert_eq!(why("a:"), CredentialsError::Length);
        assert_eq!(
            why(&format!("a:{}", "b".repeat(256))),
            CredentialsError::Length
        );
        assert!(Credentials::parse(&format!("a:{}\r\n", "b".repeat(255))).is_ok());
        assert_eq!(format!("{:?}", credentials()), "Credentials { .. }");
    }
}
