//! New requests and answers.

use bytes::Bytes;

use super::{HeaderName, Headers, Method, Request, Response, StatusCode};
use crate::cursor::is_field_text;
use crate::fields::{CSeq, Field, NameAddr};
use crate::uri::Uri;

impl Request {
    /// Creates a request without header fields and body.
    #[must_use]
    pub fn new(method: Method, uri: Uri) -> Self {
        Self {
            method,
            uri,
            headers: Headers::default(),
            body: Bytes::new(),
        }
    }

    /// Returns the CANCEL for this request, with the header fields that it shares (RFC 3261 §9.1).
    #[must_use]
    pub fn to_cancel(&self) -> Self {
        let mut cancel = Self::new(Method::Cancel, self.uri.clone());
        if let Ok([via, ..]) = self.headers.vias().as_deref() {
            cancel.headers.push(HeaderName::Via, via);
        }
        for name in [
            HeaderName::Route,
            HeaderName::MaxForwards,
            HeaderName::From,
            HeaderName::To,
            HeaderName::CallId,
        ] {
            for value in self.headers.raw(&name) {
                cancel.headers.push(name.clone(), value);
            }
        }
        if let Ok(CSeq { number, .. }) = self.headers.cseq() {
            let method = Method::Cancel;
            cancel
                .headers
                .push(HeaderName::CSeq, CSeq { number, method });
        }
        cancel
    }
}

impl Response {
    /// Creates a response with the request's header fields that it repeats (RFC 3261 §8.2.6.2).
    ///
    /// `tag` is added to To if that has none. Only `100`, and responses to a request with a tag,
    /// need none.
    #[must_use]
    pub fn new(request: &Request, status: StatusCode, tag: Option<&str>) -> Self {
        Self::to_headers(&request.headers, status, tag)
    }

    /// Returns the response with this reason phrase.
    ///
    /// # Panics
    /// Panics if the phrase has a control character.
    #[must_use]
    pub fn with_reason(mut self, reason: &str) -> Self {
        assert!(is_field_text(reason), "{reason:?}");
        self.reason = reason.to_owned();
        self
    }

    /// Returns the reason phrase. May be empty.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }

    pub(super) fn to_headers(request: &Headers, status: StatusCode, tag: Option<&str>) -> Self {
        let mut headers = Headers::default();
        for (name, value) in request.iter() {
            match name {
                HeaderName::To => headers.push(HeaderName::To, with_tag(value, tag)),
                HeaderName::Via | HeaderName::From | HeaderName::CallId | HeaderName::CSeq => {
                    headers.push(name.clone(), value);
                }
                _ => {}
            }
        }
        Self {
            status,
            reason: status.reason().to_owned(),
            headers,
            body: Bytes::new(),
        }
    }
}

/// Returns To with the tag added; a To that can't be read is unchanged.
fn with_tag(value: &str, tag: Option<&str>) -> String {
    match (NameAddr::parse(value), tag) {
        (Ok(mut to), Some(tag)) if to.tag().is_none() => {
            to.params.set("tag", tag);
            to.to_string()
        }
        _ => value.to_owned(),
    }
}
