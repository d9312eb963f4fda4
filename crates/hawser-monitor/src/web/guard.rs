//! Access control: requests must come from this server's own pages, use its own name, and present
//! the token.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::guests::Badge;
use super::head::{host, shown_token};
use super::site::Site;

/// Admits requests that use this server's own name, from its own pages; adds headers to every
/// answer that make browsers strict.
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
    // Assets have set their own value.
    let cached = headers.entry(CACHE_CONTROL);
    cached.or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Admits requests with the token, or with the pass made from it.
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
    // The handler sees when the presented token has been replaced.
    request.extensions_mut().insert(token);
    let badge = request.extensions().get::<Badge>();
    if badge.is_some_and(|badge| !badge.mark_known()) {
        // The connection is being ended for another one.
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    next.run(request).await
}

/// Returns the answer to a request without a valid token.
pub(super) fn turned_away() -> Response {
    let ask_for_it = [(WWW_AUTHENTICATE, "Bearer")];
    (StatusCode::UNAUTHORIZED, ask_for_it, NO_TOKEN).into_response()
}

/// A page runs only its own scripts and talks only to this server; no foreign page frames, embeds
/// or reads it.
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
const NO_TOKEN: &str = "the token is missing or wrong; `hawser web` shows it\n";
