//! Mandatory header fields, and refusals before the request itself is considered.

use super::{HeaderFault, HeaderName, Headers, Method, Request, Response, StatusCode};
use crate::fields::{CSeq, CallId, NameAddr, Via};

/// Header fields that every request and response must have (RFC 3261 §8.1.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Essentials {
    /// Hops of the message, the latest one first; at least one.
    pub vias: Vec<Via>,
    /// The caller.
    pub from: NameAddr,
    /// The called user.
    pub to: NameAddr,
    /// Call-ID.
    pub call_id: CallId,
    /// Number and method of the request.
    pub cseq: CSeq,
}

/// Refusal of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Status of the response.
    pub status: StatusCode,
    /// Reason phrase.
    pub reason: String,
    /// Header field that the response must have, such as Unsupported.
    pub header: Option<(HeaderName, String)>,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, reason: impl Into<String>) -> Self {
        Self {
            status,
            reason: reason.into(),
            header: None,
        }
    }

    /// Refuses a request with an unreadable header field.
    pub(crate) fn unreadable(fault: &HeaderFault) -> Self {
        Self::new(StatusCode::BAD_REQUEST, fault.to_string())
    }

    fn with(mut self, name: HeaderName, value: String) -> Self {
        self.header = Some((name, value));
        self
    }

    /// Returns the response to `request`.
    #[must_use]
    pub fn answer(&self, request: &Request, tag: &str) -> Response {
        let mut answer = Response::new(request, self.status, Some(tag)).with_reason(&self.reason);
        if let Some((name, value)) = &self.header {
            answer.headers.push(name.clone(), value);
        }
        answer
    }
}

impl Request {
    /// Reads the mandatory header fields, and checks all other known ones.
    ///
    /// # Errors
    /// The first header field that is missing, occurs too often, or can't be read.
    pub fn essentials(&self) -> Result<Essentials, HeaderFault> {
        let essentials = read(&self.headers)?;
        if essentials.cseq.method != self.method {
            return Err(HeaderFault::OtherMethod {
                cseq: essentials.cseq.method.to_string(),
                request: self.method.to_string(),
            });
        }
        Ok(essentials)
    }

    /// Returns the reason to refuse this request before it is handled (RFC 3261 §8.2): a fault, a
    /// scheme other than `sip` and `sips`, a method that is not in `methods`, an extension that is
    /// not in `extensions`.
    #[must_use]
    pub fn refusal(&self, methods: &[Method], extensions: &[&str]) -> Option<Refusal> {
        match self.essentials() {
            Ok(_) => self.refusal_of_readable(methods, extensions),
            Err(fault) => Some(Refusal::unreadable(&fault)),
        }
    }

    /// Does the same for a request whose mandatory header fields were read.
    pub(crate) fn refusal_of_readable(
        &self,
        methods: &[Method],
        extensions: &[&str],
    ) -> Option<Refusal> {
        if !methods.contains(&self.method) {
            let status = match self.method {
                Method::Other(_) => StatusCode::NOT_IMPLEMENTED,
                _ => StatusCode::METHOD_NOT_ALLOWED,
            };
            let allowed: Vec<_> = methods.iter().map(Method::as_str).collect();
            let refusal = Refusal::new(status, status.reason());
            return Some(refusal.with(HeaderName::Allow, allowed.join(", ")));
        }
        if self.uri.as_sip().is_none() {
            let status = StatusCode::UNSUPPORTED_URI_SCHEME;
            return Some(Refusal::new(status, status.reason()));
        }
        // CANCEL and ACK are never refused for an extension (RFC 3261 §8.2.2.3).
        if matches!(self.method, Method::Cancel | Method::Ack) {
            return None;
        }
        let mut required = self.headers.words(HeaderName::Require).unwrap_or_default();
        required.retain(|word| {
            !extensions
                .iter()
                .any(|known| known.eq_ignore_ascii_case(word))
        });
        if required.is_empty() {
            return None;
        }
        let status = StatusCode::BAD_EXTENSION;
        let refusal = Refusal::new(status, status.reason());
        Some(refusal.with(HeaderName::Unsupported, required.join(", ")))
    }
}

impl Response {
    /// Reads the mandatory header fields, and checks all other known ones.
    ///
    /// # Errors
    /// The first header field that is missing, occurs too often, or can't be read.
    pub fn essentials(&self) -> Result<Essentials, HeaderFault> {
        read(&self.headers)
    }
}

fn read(headers: &Headers) -> Result<Essentials, HeaderFault> {
    let vias = headers.vias()?;
    if vias.is_empty() {
        return Err(HeaderFault::Missing(HeaderName::Via));
    }
    let essentials = Essentials {
        vias,
        from: headers.from()?,
        to: headers.to()?,
        call_id: headers.call_id()?,
        cseq: headers.cseq()?,
    };
    check_known(headers)?;
    Ok(essentials)
}

fn check_known(headers: &Headers) -> Result<(), HeaderFault> {
    headers.max_forwards()?;
    headers.contacts()?;
    headers.expires()?;
    headers.min_expires()?;
    headers.event()?;
    headers.subscription_state()?;
    for name in [
        HeaderName::Route,
        HeaderName::RecordRoute,
        HeaderName::Path,
        HeaderName::ServiceRoute,
    ] {
        headers.routes(name)?;
    }
    for name in [
        HeaderName::Require,
        HeaderName::ProxyRequire,
        HeaderName::Supported,
        HeaderName::Unsupported,
        HeaderName::Allow,
    ] {
        headers.words(name)?;
    }
    Ok(())
}
