//! Responses of the directory itself.

use super::config::TAG;
use crate::message::{HeaderName, Method, Request, Response, StatusCode};
use crate::reginfo::PACKAGE;

/// Answers a request for the directory itself: only OPTIONS is allowed, as a keep-alive.
pub(super) fn own(request: &Request) -> Response {
    let status = match request.method {
        Method::Options => StatusCode::OK,
        Method::Other(_) => StatusCode::NOT_IMPLEMENTED,
        _ => StatusCode::METHOD_NOT_ALLOWED,
    };
    let mut answer = Response::new(request, status, Some(TAG));
    answer
        .headers
        .push(HeaderName::Allow, "REGISTER, SUBSCRIBE, OPTIONS");
    answer.headers.push(HeaderName::AllowEvents, PACKAGE);
    answer
}

/// Returns the response to a sender that exceeds its limit.
pub(super) fn overloaded(request: &Request) -> Response {
    let mut answer = Response::new(request, StatusCode::SERVICE_UNAVAILABLE, Some(TAG));
    answer.headers.push(HeaderName::RetryAfter, "5");
    answer
}

/// Whether an ACK is for a response of the directory itself.
pub(super) fn is_answered_here(ack: &Request) -> bool {
    ack.headers.to().is_ok_and(|to| to.tag() == Some(TAG))
}

/// Returns the response to a CANCEL.
pub(super) fn to_cancel(request: &Request, is_known: bool) -> Response {
    let status = if is_known {
        StatusCode::OK
    } else {
        StatusCode::NO_TRANSACTION
    };
    Response::new(request, status, Some(TAG))
}
