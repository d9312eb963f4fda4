use std::fmt;
use std::net::SocketAddr;

use subtle::ConstantTimeEq as _;

/// What a user of the server has to show: a secret of 256 random bits, as text.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// The token with this text, of characters that may stand in a URL as they are.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Where the dashboard is, with the token behind `#`, which browsers keep to themselves. A secret:
    /// show it to the user only.
    pub fn url(&self, server: SocketAddr) -> String {
        format!("http://{server}/#token={}", self.0)
    }

    /// Whether `shown` is it. Takes equally long whatever is wrong with it.
    pub(super) fn is(&self, shown: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(shown).into()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_is_it() {
        let token = Token::new("abcdefgh");
        assert!(token.is(b"abcdefgh"));
        for wrong in ["", "abcdefg", "abcdefgi", "abcdefghi", "ABCDEFGH"] {
            assert!(!token.is(wrong.as_bytes()), "{wrong}");
        }
    }

    #[test]
    fn it_is_not_shown_by_accident() {
        let token = Token::new("abcdefgh");
        assert_eq!(format!("{token:?}"), "Token(…)");
        let url = token.url(SocketAddr::from(([127, 0, 0, 1], 7480)));
        assert_eq!(url, "http://127.0.0.1:7480/#token=abcdefgh");
    }
}
