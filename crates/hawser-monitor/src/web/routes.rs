use std::future::ready;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody as _, to_bytes};
use axum::extract::{Extension, Path, State};
use axum::http::header::{CONNECTION, CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use axum::http::{HeaderName, StatusCode};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::{get, post};
use hawser_control::{ErrorReason, Request, decode, encode_response};
use tokio::sync::watch;
use tokio::time::timeout;

use super::guard::{own_pages, token_holders, turned_away};
use super::head::host;
use super::site::Site;
use super::{Token, assets};
use crate::metrics;

/// Returns the router of all paths.
pub(super) fn router(site: Site) -> Router {
    let site = Arc::new(site);
    let mut router = Router::new()
        .route("/api/v1/ask", post(ask))
        .route("/api/v1/feed", get(feed))
        .route("/metrics", get(scrape))
        .route_layer(from_fn_with_state(Arc::clone(&site), token_holders))
        .route("/api/v1/proof/{nonce}", get(prove));
    for asset in assets::all() {
        let path = asset.path.clone();
        let answer = move |State(site): State<Arc<Site>>, headers: HeaderMap| {
            ready(match host(&headers) {
                // Browsers keep the fragment behind `#`.
                Some(host) if asset.path == "/" && is_name(&host) => {
                    Redirect::temporary(&format!("http://{}/", site.address)).into_response()
                }
                _ => asset.answer(&headers),
            })
        };
        router = router.route(&path, get(answer));
    }
    router
        .layer(from_fn_with_state(Arc::clone(&site), own_pages))
        .with_state(site)
}

/// Proves that this server knows the token, and returns the run for the pass. Costs two hashes,
/// which is less than the rest of a request.
async fn prove(
    State(site): State<Arc<Site>>,
    Path(nonce): Path<String>,
    headers: HeaderMap,
) -> Response {
    let is_nonce = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if !NONCE.contains(&nonce.len()) || !nonce.bytes().all(is_nonce) {
        return (StatusCode::BAD_REQUEST, NO_NONCE).into_response();
    }
    let Some(host) = host(&headers).filter(|host| !is_name(host)) else {
        return (StatusCode::BAD_REQUEST, NAMED).into_response();
    };
    let proof = site.token.borrow().proof(&host, &site.run, &nonce);
    let kind = [(CONTENT_TYPE, "application/json")];
    let answer = serde_json::json!({ "run": site.run, "proof": proof });
    (kind, answer.to_string()).into_response()
}

/// Returns whether a host is not an address. A name may resolve to several addresses, and another
/// program at one of them could relay requests to this server.
fn is_name(host: &str) -> bool {
    host.starts_with("localhost")
}

/// Handles one request of the control API.
async fn ask(
    State(site): State<Arc<Site>>,
    Extension(token): Extension<watch::Receiver<Token>>,
    body: Body,
) -> Response {
    let body = match read(body, site.patience).await {
        Ok(body) => body,
        Err(refusal) => return refusal.into_response(),
    };
    // Reading the body may have taken a while.
    if token.has_changed().unwrap_or_default() {
        return turned_away();
    }
    match decode::<Request>(&body) {
        Ok(request) if request.is_for_owner() => refused(
            StatusCode::FORBIDDEN,
            ErrorReason::Forbidden,
            ONLY_SOCKET.to_owned(),
        ),
        Ok(request) => told(StatusCode::OK, &site.daemon.answer(&request)),
        Err(error) => {
            let message = error.to_string();
            refused(StatusCode::BAD_REQUEST, ErrorReason::Malformed, message)
        }
    }
}

/// Streams the events of the daemon.
async fn feed(
    State(site): State<Arc<Site>>,
    Extension(token): Extension<watch::Receiver<Token>>,
    headers: HeaderMap,
) -> Response {
    match site.feeds.open(last_event(&headers), token) {
        Some(feed) => {
            let kind = [(CONTENT_TYPE, "text/event-stream")];
            (kind, Body::from_stream(feed)).into_response()
        }
        None => {
            // A known connection is never ended for others, so it must not stay open without use.
            let later = [(RETRY_AFTER, FEED_RETRY), (CONNECTION, "close")];
            (StatusCode::SERVICE_UNAVAILABLE, later, TOO_MANY_FEEDS).into_response()
        }
    }
}

/// Returns the daemon's metrics, for Prometheus.
async fn scrape(State(site): State<Arc<Site>>) -> Response {
    match site.daemon.answer(&Request::STATUS_WITHOUT_SESSIONS) {
        hawser_control::Response::Status(snapshot) => {
            let kind = [(CONTENT_TYPE, metrics::CONTENT_TYPE)];
            (kind, metrics::render(&snapshot)).into_response()
        }
        other => told(StatusCode::INTERNAL_SERVER_ERROR, &other),
    }
}

/// Returns a body, unless it is long or slow.
async fn read(body: Body, patience: Duration) -> Result<Bytes, (StatusCode, &'static str)> {
    let too_long = (StatusCode::PAYLOAD_TOO_LARGE, TOO_LONG);
    if body.size_hint().lower() > MAX_BODY as u64 {
        return Err(too_long);
    }
    match timeout(patience, to_bytes(body, MAX_BODY)).await {
        // If the connection is broken instead, this answer reaches no reader.
        Ok(read) => read.map_err(|_| too_long),
        Err(_) => Err((StatusCode::REQUEST_TIMEOUT, TOO_SLOW)),
    }
}

/// Returns the latest event that a reader of the feed knows from before; 0 if it knows none.
fn last_event(headers: &HeaderMap) -> u64 {
    let value = headers.get(HeaderName::from_static("last-event-id"));
    let text = value.and_then(|value| value.to_str().ok());
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}

fn refused(status: StatusCode, reason: ErrorReason, message: String) -> Response {
    told(status, &hawser_control::Response::Error { reason, message })
}

fn told(status: StatusCode, response: &hawser_control::Response) -> Response {
    match encode_response(response) {
        Ok(line) => (status, [(CONTENT_TYPE, "application/json")], line).into_response(),
        Err(error) => {
            tracing::warn!(%error, "encoding an answer failed");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// Limit of bytes of a request's body.
const MAX_BODY: usize = 64 * 1024;
/// Length in characters of base64url.
const NONCE: RangeInclusive<usize> = 16..=64;
const NAMED: &str = "this server proves itself by its address only\n";
const NO_NONCE: &str = "a nonce has from 16 to 64 characters of base64url\n";
/// Seconds.
const FEED_RETRY: &str = "5";
const TOO_LONG: &str = "a request has at most 65536 bytes\n";
const TOO_SLOW: &str = "the request did not come in time\n";
const TOO_MANY_FEEDS: &str = "as many feeds are open as there may be\n";
const ONLY_SOCKET: &str = "this is asked for at the control socket only, by the daemon's own user";
