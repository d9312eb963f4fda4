//! What every message must have, and which requests are refused before they are looked at.

use super::{HeaderFault, HeaderName, Headers, Method, Request, Response, StatusCode};
use crate::fields::{CSeq, CallId, NameAddr, Via};

/// What every request and answer must have (RFC 3261 §8.1.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Essentials {
    /// The hops that it has come over, the latest one first; one at least.
    pub vias: Vec<Via>,
    /// Who asks.
    pub from: NameAddr,
    /// Who is asked.
    pub to: NameAddr,
    /// What belongs together.
    pub call_id: CallId,
    /// The number of the request, and its method.
    pub cseq: CSeq,
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The answer's status.
    pub status: StatusCode,
    /// The reason in words.
    pub reason: String,
    /// A header field that the answer must have, such as Unsupported.
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

    /// The refusal of a request in which something can't be read.
    pub(crate) fn unreadable(fault: &HeaderFault) -> Self {
        Self::new(StatusCode::BAD_REQUEST, fault.to_string())
    }

    fn with(mut self, name: HeaderName, value: String) -> Self {
        self.header = Some((name, value));
        self
    }

    /// Returns the answer to `request`.
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
    /// Reads what every request must have, and checks all header fields that are known here.
    ///
    /// # Errors
    /// The first header field that is missing, is there too often, or can't be read.
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

    /// Returns why this request is refused before anybody looks at what it asks for (RFC 3261
    /// §8.2): a fault, a scheme other than `sip` and `sips`, a method that is not among `methods`,
    /// an extension that is not among `extensions`.
    #[must_use]
    pub fn refusal(&self, methods: &[Method], extensions: &[&str]) -> Option<Refusal> {
        match self.essentials() {
            Ok(_) => self.refusal_of_readable(methods, extensions),
            Err(fault) => Some(Refusal::unreadable(&fault)),
        }
    }

    /// The same for a request whose essentials were read.
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
        // Neither CANCEL nor ACK is refused for an extension (RFC 3261 §8.2.2.3).
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
    /// Reads what every answer must have, and checks all header fields that are known here.
    ///
    /// # Errors
    /// The first header field that is missing, is there too often, or can't be read.
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
