//! Who may ask: pages of this server, by its own name, and those who hold the token.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{
    AUTHORIZATION, CACHE_CONTROL, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN,
    WWW_AUTHENTICATE,
};
use axum::http::{StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::guests::Badge;
use super::routes::Site;

/// Lets pass who asks this server by its own name, and from no other page; every answer gets what
/// keeps browsers strict.
pub(super) async fn own_pages(
    State(site): State<Arc<Site>>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = match site.names.are_meant(request.uri(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(why) => (StatusCode::FORBIDDEN, why).into_response(),
    };
    let headers = response.headers_mut();
    for (name, value) in STRICT {
        headers.insert(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        );
    }
    // Assets have said otherwise.
    let cached = headers.entry(CACHE_CONTROL);
    cached.or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Lets pass who shows the token, or the pass that comes of it.
pub(super) async fn token_holders(
    State(site): State<Arc<Site>>,
    mut request: Request,
    next: Next,
) -> Response {
    let mut token = site.token.clone();
    let shown = shown_token(request.headers());
    let host = host(request.headers());
    let is_let_in = shown
        .zip(host)
        .is_some_and(|(shown, host)| token.borrow_and_update().lets_in(shown, &host, &site.run));
    if !is_let_in {
        return turned_away();
    }
    // It tells when the token that was shown is none any more.
    request.extensions_mut().insert(token);
    if let Some(badge) = request.extensions().get::<Badge>() {
        badge.mark_known();
    }
    next.run(request).await
}

/// What is answered to who has not shown the token.
pub(super) fn turned_away() -> Response {
    let ask_for_it = [(WWW_AUTHENTICATE, "Bearer")];
    (StatusCode::UNAUTHORIZED, ask_for_it, NO_TOKEN).into_response()
}

/// What a request calls this server, in lower case as pages know it.
pub(super) fn host(headers: &HeaderMap) -> Option<String> {
    let host = std::str::from_utf8(only(headers, &HOST)?).ok()?;
    Some(host.to_ascii_lowercase())
}

/// What this server is called by pages that are its own. A name that somebody else's resolver leads
/// here is none of them.
pub(super) struct OwnNames(Vec<String>);

impl OwnNames {
    pub(super) fn of(server: SocketAddr) -> Self {
        let port = server.port();
        let own = SocketAddr::new(server.ip(), port).to_string();
        let others = ["localhost", "127.0.0.1", "[::1]"];
        let mut names: Vec<_> = others.map(|host| format!("{host}:{port}")).into();
        names.push(own);
        if port == HTTP_PORT {
            // Browsers leave it out.
            let bare = |name: &String| name.rsplit_once(':').map(|(host, _)| host.to_owned());
            names.extend(names.iter().filter_map(bare).collect::<Vec<_>>());
        }
        Self(names)
    }

    /// Fails with the reason unless a request is for one of them, and from a page of the same, or
    /// of none.
    fn are_meant(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), &'static str> {
        let host = only(headers, &HOST).ok_or(NO_HOST)?;
        let named = uri.authority().map(|authority| authority.as_str());
        if !self.has(host) || !named.is_none_or(|name| self.has(name.as_bytes())) {
            return Err(OTHER_HOST);
        }
        let is_own = |origin: &HeaderValue| {
            let name = origin.as_bytes().strip_prefix(b"http://");
            name.is_some_and(|name| name.eq_ignore_ascii_case(host))
        };
        match headers.get_all(ORIGIN).iter().all(is_own) {
            true => Ok(()),
            false => Err(OTHER_ORIGIN),
        }
    }

    fn has(&self, host: &[u8]) -> bool {
        let mut names = self.0.iter();
        names.any(|name| name.as_bytes().eq_ignore_ascii_case(host))
    }
}

/// The token of `Authorization: Bearer TOKEN`.
fn shown_token(headers: &HeaderMap) -> Option<&[u8]> {
    let (scheme, token) = only(headers, &AUTHORIZATION)?.split_at_checked(BEARER.len())?;
    scheme.eq_ignore_ascii_case(BEARER).then_some(token)
}

/// The value of a header that stands there once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a [u8]> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => Some(value.as_bytes()),
        _ => None,
    }
}

/// A page runs the scripts that come with it and talks to this server, and nothing else; no page of
/// others frames, embeds or reads it.
const STRICT: [(&str, &str); 5] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
         img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
];
const BEARER: &[u8] = b"bearer ";
const HTTP_PORT: u16 = 80;
const NO_HOST: &str = "a request names its host, once\n";
const OTHER_HOST: &str =
    "this server is asked as localhost, 127.0.0.1 or [::1], with its own port\n";
const OTHER_ORIGIN: &str = "pages of other servers may not ask this one\n";
const NO_TOKEN: &str = "the token is missing or wrong; `hawser web` shows it\n";

#[cfg(test)]
mod tests;
