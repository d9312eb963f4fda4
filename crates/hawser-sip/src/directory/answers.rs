//! Answers that a directory gives by itself.

use super::config::TAG;
use crate::message::{HeaderName, Method, Request, Response, StatusCode};
use crate::reginfo::PACKAGE;

/// The answer to what is asked of the directory itself: OPTIONS alone, as a sign of life.
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

/// The answer to who asks too often.
pub(super) fn overloaded(request: &Request) -> Response {
    let mut answer = Response::new(request, StatusCode::SERVICE_UNAVAILABLE, Some(TAG));
    answer.headers.push(HeaderName::RetryAfter, "5");
    answer
}

/// Whether an ACK is for an answer of the directory's own.
pub(super) fn is_answered_here(ack: &Request) -> bool {
    ack.headers.to().is_ok_and(|to| to.tag() == Some(TAG))
}

/// The answer to a CANCEL.
pub(super) fn to_cancel(request: &Request, is_known: bool) -> Response {
    let status = if is_known {
        StatusCode::OK
    } else {
        StatusCode::NO_TRANSACTION
    };
    Response::new(request, status, Some(TAG))
}
