use std::fmt;
use std::net::SocketAddr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use subtle::ConstantTimeEq as _;

/// The secret that users of the server present: 256 random bits, as text.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// Creates a token from this text, of characters that need no escape in a URL.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the address of the dashboard with the token behind `#`, which browsers never send.
    /// It is a secret: show it to the user only.
    pub fn url(&self, server: SocketAddr) -> String {
        format!("http://{server}/#token={}", self.0)
    }

    /// Returns whether `shown` is the token, or the pass of this host and run. Takes the same time
    /// whatever is wrong.
    pub(super) fn lets_in(&self, shown: &[u8], host: &str, run: &str) -> bool {
        let is_token = self.0.as_bytes().ct_eq(shown);
        let is_pass = self.pass(host, run).as_bytes().ct_eq(shown);
        (is_token | is_pass).into()
    }

    /// Returns the pass that pages present instead of the token. The token cannot be derived from
    /// it. It is valid only for the server that uses the name `host` and has drawn `run`, so it is
    /// useless to a program that takes the port later.
    pub(super) fn pass(&self, host: &str, run: &str) -> String {
        mac(&self.0, &["hawser-pass", host, run])
    }

    /// Returns the answer to the number `nonce`, which only a server with the token can give.
    pub(super) fn proof(&self, host: &str, run: &str, nonce: &str) -> String {
        mac(&self.pass(host, run), &["hawser-proof", nonce])
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Returns the HMAC-SHA-256 over these lines, none of which contains a line end, as base64url.
fn mac(key: &str, lines: &[&str]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes());
    URL_SAFE_NO_PAD.encode(hmac::sign(&key, lines.join("\n").as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_is_it() {
        let token = Token::new("abcdefgh");
        assert!(token.lets_in(b"abcdefgh", "h", "r"));
        for wrong in ["", "abcdefg", "abcdefgi", "abcdefghi", "ABCDEFGH"] {
            assert!(!token.lets_in(wrong.as_bytes(), "h", "r"), "{wrong}");
        }
    }

    #[test]
    fn a_pass_is_for_one_host_and_one_run() {
        let token = Token::new("abcdefgh");
        let pass = token.pass("127.0.0.1:7480", "run");
        let lets_in = |host, run| token.lets_in(pass.as_bytes(), host, run);
        assert!(lets_in("127.0.0.1:7480", "run"));
        assert!(!lets_in("127.0.0.1:7481", "run") && !lets_in("127.0.0.1:7480", "next"));
        let other = Token::new("abcdefgi");
        assert!(!other.lets_in(pass.as_bytes(), "127.0.0.1:7480", "run"));
    }

    /// Values from `printf 'hawser-pass\nh\nr' | openssl dgst -sha256 -hmac abcdefgh -binary |
    /// basenc --base64url`, and the same for the proof with the pass as the key.
    #[test]
    fn pass_and_proof_are_what_others_compute() {
        let token = Token::new("abcdefgh");
        assert_eq!(token.pass("h", "r"), PASS);
        assert_eq!(token.proof("h", "r", "n"), PROOF);
    }

    #[test]
    fn it_is_not_shown_by_accident() {
        let token = Token::new("abcdefgh");
        assert_eq!(format!("{token:?}"), "Token(…)");
        let url = token.url(SocketAddr::from(([127, 0, 0, 1], 7480)));
        assert_eq!(url, "http://127.0.0.1:7480/#token=abcdefgh");
    }

    const PASS: &str = "2OOQwZE8Sf9kfwDEpCykebFmQdzuMobubcQYwAtpt_0";
    const PROOF: &str = "Za-6Zzi0yjs1PY9mi8ntciRPH-QQMZ21zmbZZhcwgWE";
}
