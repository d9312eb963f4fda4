use std::fmt;
use std::str::FromStr;

use hawser_types::Host;

use crate::HostPort;

/// A page of an HTTP server for link checks: `http://host[:port]/path[#text]`.
///
/// Not `https`: a captive portal shows only in plain HTTP, and a page for measurements is no
/// secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpUrl {
    /// The name or the address of the server.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The path, with what follows it up to `#`.
    pub path: String,
    /// Text behind `#` that the page contains; none where the expected status is 204.
    pub expected: Option<String>,
}

impl HttpUrl {
    /// Returns host and port as in a request.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') {
            format!("[{}]", self.host)
        } else {
            self.host.clone()
        };
        match self.port {
            HTTP => host,
            port => format!("{host}:{port}"),
        }
    }
}

impl FromStr for HttpUrl {
    type Err = HttpUrlError;

    fn from_str(text: &str) -> Result<Self, HttpUrlError> {
        let wrong = || HttpUrlError;
        let is_clean = text.len() <= MAX_URL && text.bytes().all(|byte| byte.is_ascii_graphic());
        let rest = text.strip_prefix("http://").filter(|_| is_clean);
        let rest = rest.ok_or_else(wrong)?;
        let (rest, expected) = rest.split_once('#').unwrap_or((rest, ""));
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, "/"),
        };
        let server: HostPort = authority.parse().map_err(|_| wrong())?;
        let host = match server.host() {
            Host::Ip(address) => address.to_string(),
            Host::Name(name) => name.to_string(),
        };
        Ok(Self {
            host,
            port: server.port().unwrap_or(HTTP),
            path: path.to_owned(),
            expected: Some(expected.to_owned()).filter(|text| !text.is_empty()),
        })
    }
}

impl fmt::Display for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.authority(), self.path)?;
        match &self.expected {
            Some(text) => write!(f, "#{text}"),
            None => Ok(()),
        }
    }
}

/// A text that is not such a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a URL such as http://check.example/generate_204")]
pub struct HttpUrlError;

const HTTP: u16 = 80;
const MAX_URL: usize = 2000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_read_back() {
        for text in [
            "http://check.example/generate_204",
            "http://check.example:8080/?a=b",
            "http://192.0.2.1/ok.txt#success",
            "http://[2001:db8::1]:81/",
        ] {
            let url: HttpUrl = text.parse().unwrap();
            assert_eq!(url.to_string(), text);
        }
        let bare: HttpUrl = "http://check.example".parse().unwrap();
        assert_eq!((bare.port, bare.path.as_str()), (80, "/"));
    }

    #[test]
    fn what_is_no_plain_url_is_refused() {
        for text in [
            "",
            "check.example",
            "https://check.example/",
            "http://",
            "http:///x",
            "http://user@host/",
            "http://a/b c",
            "http://a/\r\nX: y",
            "http://a:99999/",
        ] {
            assert_eq!(text.parse::<HttpUrl>(), Err(HttpUrlError), "{text:?}");
        }
    }
}
