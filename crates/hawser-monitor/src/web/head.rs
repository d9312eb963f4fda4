//! The head of a request: the server's name, the origin page, the token.

use std::net::SocketAddr;

use axum::http::Uri;
use axum::http::header::{AUTHORIZATION, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN};

/// Returns the name that a request uses for this server, in lower case as pages know it.
pub(super) fn host(headers: &HeaderMap) -> Option<String> {
    let host = std::str::from_utf8(only(headers, &HOST)?).ok()?;
    Some(host.to_ascii_lowercase())
}

/// Names of this server in its own pages. A foreign name that resolves to this address is none of
/// them.
pub(super) struct OwnNames(Vec<String>);

impl OwnNames {
    pub(super) fn of(server: SocketAddr) -> Self {
        let port = server.port();
        let own = SocketAddr::new(server.ip(), port).to_string();
        let others = ["localhost", "127.0.0.1", "[::1]"];
        let mut names: Vec<_> = others.map(|host| format!("{host}:{port}")).into();
        names.push(own);
        if port == HTTP_PORT {
            // Browsers leave out the default port.
            let bare = |name: &String| name.rsplit_once(':').map(|(host, _)| host.to_owned());
            names.extend(names.iter().filter_map(bare).collect::<Vec<_>>());
        }
        Self(names)
    }

    /// Fails with the reason unless a request uses one of these names, and comes from a page of the
    /// same name or from no page.
    pub(super) fn are_meant(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), &'static str> {
        let host = only(headers, &HOST).ok_or(NO_HOST)?;
        let named = uri.authority().map(|authority| authority.as_str());
        if !self.has(host) || !named.is_none_or(|name| self.has(name.as_bytes())) {
            return Err(OTHER_HOST);
        }
        let is_own = |origin: &HeaderValue| {
            let name = origin.as_bytes().strip_prefix(b"http://");
            name.is_some_and(|name| name.eq_ignore_ascii_case(host))
        };
        if headers.get_all(ORIGIN).iter().all(is_own) {
            Ok(())
        } else {
            Err(OTHER_ORIGIN)
        }
    }

    fn has(&self, host: &[u8]) -> bool {
        let mut names = self.0.iter();
        names.any(|name| name.as_bytes().eq_ignore_ascii_case(host))
    }
}

/// Returns the token of `Authorization: Bearer TOKEN`.
pub(super) fn shown_token(headers: &HeaderMap) -> Option<&[u8]> {
    let (scheme, token) = only(headers, &AUTHORIZATION)?.split_at_checked(BEARER.len())?;
    scheme.eq_ignore_ascii_case(BEARER).then_some(token)
}

/// Returns the value of a header that occurs exactly once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a [u8]> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => Some(value.as_bytes()),
        _ => None,
    }
}

const BEARER: &[u8] = b"bearer ";
const HTTP_PORT: u16 = 80;
const NO_HOST: &str = "a request names its host, once\n";
const OTHER_HOST: &str =
    "this server is asked as localhost, 127.0.0.1 or [::1], with its own port\n";
const OTHER_ORIGIN: &str = "pages of other servers may not ask this one\n";

#[cfg(test)]
mod tests;
