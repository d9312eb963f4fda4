//! The first line of a message (RFC 3261 §7.1, §7.2).

use thiserror::Error;

use crate::cursor::{SyntaxFault, is_token};
use crate::message::{Method, StatusCode};
use crate::uri::Uri;

/// Reason why a line is no start line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StartLineFault {
    /// The line does not have three parts separated by single spaces.
    #[error("three parts with one space between them were expected")]
    Parts,
    /// The method is no token.
    #[error("the method has characters that are not allowed")]
    Method,
    /// The URI can't be read.
    #[error("{0}")]
    Uri(#[from] SyntaxFault),
    /// The URI has headers, which is not allowed in a request.
    #[error("the URI of a request may not name headers")]
    UriHeaders,
    /// The version is not SIP/2.0.
    #[error("the version is {0}, and SIP/2.0 is spoken here")]
    Version(String),
    /// The status code is not from 100 to 699.
    #[error("a status code from 100 to 699 was expected")]
    Status,
}

/// The first line of a message.
pub(super) enum Start {
    Request(Method, Uri),
    Response(StatusCode, String),
}

impl Start {
    pub(super) fn read(line: &str) -> Result<Self, StartLineFault> {
        if is_status_line(line) {
            read_status(line)
        } else {
            read_request(line)
        }
    }
}

/// Whether a line is a status line. No method begins like a version, because `/` is in no token.
pub(super) fn is_status_line(line: &str) -> bool {
    line.get(..4)
        .is_some_and(|begin| begin.eq_ignore_ascii_case("SIP/"))
}

fn read_status(line: &str) -> Result<Start, StartLineFault> {
    let mut parts = line.splitn(3, ' ');
    let (Some(version), Some(code), Some(reason)) = (parts.next(), parts.next(), parts.next())
    else {
        return Err(StartLineFault::Parts);
    };
    check_version(version)?;
    let is_code = code.len() == 3 && code.bytes().all(|byte| byte.is_ascii_digit());
    let status = code.parse().ok().filter(|_| is_code);
    let status = status.and_then(StatusCode::new);
    let status = status.ok_or(StartLineFault::Status)?;
    Ok(Start::Response(status, reason.to_owned()))
}

fn read_request(line: &str) -> Result<Start, StartLineFault> {
    let mut parts = line.split(' ');
    let (Some(method), Some(uri), Some(version), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(StartLineFault::Parts);
    };
    if method.is_empty() || !method.bytes().all(is_token) {
        return Err(StartLineFault::Method);
    }
    // The version is checked first, because another version may have other URIs.
    check_version(version)?;
    let uri: Uri = uri.parse()?;
    if uri.as_sip().is_some_and(|uri| uri.has_headers()) {
        return Err(StartLineFault::UriHeaders);
    }
    Ok(Start::Request(Method::named(method), uri))
}

fn check_version(version: &str) -> Result<(), StartLineFault> {
    if version.eq_ignore_ascii_case("SIP/2.0") {
        return Ok(());
    }
    if is_status_line(version) {
        Err(StartLineFault::Version(version.to_owned()))
    } else {
        Err(StartLineFault::Parts)
    }
}
