//! Decisions of a proxy about requests and responses (RFC 3261 §16), without the transactions that
//! carry them out.

mod forward;
mod targets;
#[cfg(test)]
mod tests;
mod way;

use hawser_types::{Host, Instant};
use ring::hmac;

use crate::fields::{MaxForwards, Via};
use crate::message::{HeaderName, Method, Refusal, Request, Response, StatusCode};
use crate::registrar::Location;
use crate::uri::{SipUri, Uri};
use forward::Common;
pub use forward::Forward;
pub(crate) use forward::first_hop;

/// A proxy for some domains.
#[derive(Debug)]
pub struct Proxy {
    /// URI of this proxy, for Record-Route and Via.
    own: SipUri,
    domains: Vec<Host>,
    key: hmac::Key,
}

/// Decision about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Refuse the request.
    Refuse(Refusal),
    /// Answer in place: the request is for the proxy itself, for example OPTIONS without a user.
    Own,
    /// Forward to each of these targets, the preferred ones first.
    Forward(Vec<Forward>),
}

impl Proxy {
    /// Creates a proxy at `own`, which has neither user nor parameters. `key` is secret and random:
    /// it seals the marks that detect loops, and the recorded routes. A stored key lets calls
    /// outlive a restart.
    #[must_use]
    pub fn new(own: SipUri, domains: Vec<Host>, key: &[u8; 32]) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, key);
        Self { own, domains, key }
    }

    /// Decides about a request other than REGISTER and CANCEL (RFC 3261 §16.3 to 16.6).
    #[must_use]
    pub fn handle_request(&self, now: Instant, request: &Request, location: &Location) -> Decision {
        match self.decide(now, request, location) {
            Ok(decision) => decision,
            Err(refusal) => Decision::Refuse(refusal),
        }
    }

    /// Returns a redirect with all contacts and their `q`, instead of forwarding (RFC 3261 §8.3).
    /// `None` if the request is for no user of the served domains.
    #[must_use]
    pub fn redirect(
        &self,
        now: Instant,
        request: &Request,
        location: &Location,
        tag: &str,
    ) -> Option<Response> {
        let address = self.served(&request.uri)?.address_of_record()?;
        let bindings = location.lookup(now, &address);
        let status = if bindings.is_empty() {
            StatusCode::TEMPORARILY_UNAVAILABLE
        } else {
            StatusCode::MOVED_TEMPORARILY
        };
        let mut answer = Response::new(request, status, Some(tag));
        for binding in &bindings {
            let contact = binding.to_contact(now);
            answer.headers.push(HeaderName::Contact, contact);
        }
        Some(answer)
    }

    /// Removes this proxy's Via from a response (RFC 3261 §16.7), replaces the recorded route by
    /// the caller's own, and returns the response with its next hop. `None` if no hop is left, or
    /// the first Via is not this proxy's according to `is_own`.
    #[must_use]
    pub fn handle_response(
        &self,
        response: &Response,
        is_own: impl FnOnce(&Via) -> bool,
    ) -> Option<(Response, Via)> {
        let vias = response.headers.vias().ok()?;
        let [first, next, ..] = &vias[..] else {
            return None;
        };
        if !is_own(first) {
            return None;
        }
        let mut answer = response.clone();
        answer.headers.remove(&HeaderName::Via);
        for via in vias[1..].iter().rev() {
            answer.headers.push_front(HeaderName::Via, via);
        }
        self.record_for_caller(&mut answer);
        Some((answer, next.clone()))
    }

    /// Whether a URI is this proxy's, or one of a user of its domains.
    pub(crate) fn serves(&self, uri: &Uri) -> bool {
        self.is_own(uri) || self.served(uri).is_some()
    }

    fn decide(
        &self,
        now: Instant,
        request: &Request,
        location: &Location,
    ) -> Result<Decision, Refusal> {
        let mark = self.check(request)?;
        let mut request = request.clone();
        let way = self.take_own_route(&mut request)?;
        let hops = request.headers.max_forwards().ok().flatten();
        let hops = hops.map_or(DEFAULT_HOPS, |hops| hops.0 - 1);
        request
            .headers
            .set(HeaderName::MaxForwards, MaxForwards(hops));
        let is_served = self.served(&request.uri).is_some();
        if is_served && !request.headers.contains(&HeaderName::Route) {
            return self.targets(now, request, mark, location);
        }
        // Other domains only along a route that this proxy recorded: it is no open relay.
        let is_within = request.headers.to().is_ok_and(|to| to.tag().is_some());
        let way = way.filter(|_| is_within);
        let origin = way.and_then(|way| self.follow(now, &way, &request, location));
        let Some(origin) = origin else {
            let reason = if is_within {
                "the way was not recorded here, or leads elsewhere"
            } else {
                "the domain is not served here"
            };
            return Err(Refusal::new(StatusCode::FORBIDDEN, reason));
        };
        let common = Common {
            request,
            mark,
            record: None,
        };
        let onward = Forward::onward(common.into(), origin);
        Ok(Decision::Forward(vec![onward]))
    }

    /// Checks a request (RFC 3261 §16.3). Returns its loop mark.
    fn check(&self, request: &Request) -> Result<String, Refusal> {
        let essentials = request
            .essentials()
            .map_err(|fault| Refusal::unreadable(&fault))?;
        let plain = |status: StatusCode| Err(Refusal::new(status, status.reason()));
        if request.uri.as_sip().is_none() {
            return plain(StatusCode::UNSUPPORTED_URI_SCHEME);
        }
        if let Ok(Some(MaxForwards(0))) = request.headers.max_forwards() {
            return plain(StatusCode::TOO_MANY_HOPS);
        }
        let required = request.headers.words(HeaderName::ProxyRequire);
        let required = required.unwrap_or_default().join(", ");
        if !required.is_empty() && request.method != Method::Ack {
            let status = StatusCode::BAD_EXTENSION;
            let mut refusal = Refusal::new(status, status.reason());
            refusal.header = Some((HeaderName::Unsupported, required));
            return Err(refusal);
        }
        let mark = self.mark(request);
        let marks = essentials.vias.iter().filter_map(Via::branch);
        if marks
            .filter_map(|branch| branch.rsplit_once('.'))
            .any(|(_, own)| own == mark)
        {
            plain(StatusCode::LOOP_DETECTED)
        } else {
            Ok(mark)
        }
    }

    fn is_own(&self, uri: &Uri) -> bool {
        uri.as_sip().is_some_and(|uri| {
            let is_here = uri.host.to_canonical() == self.own.host.to_canonical();
            is_here && uri.port == self.own.port && uri.escaped_user().is_none()
        })
    }

    /// Returns the URI if its domain is served here.
    fn served<'a>(&self, uri: &'a Uri) -> Option<&'a SipUri> {
        let uri = uri.as_sip()?;
        let host = uri.host.to_canonical();
        self.domains.contains(&host).then_some(uri)
    }

    /// Returns a mark that is equal for a looping request: a seal over everything that its route
    /// depends on (RFC 3261 §16.6 step 8, RFC 5393 §4.2.2). No other proxy can create it.
    fn mark(&self, request: &Request) -> String {
        let uri = request.uri.to_string();
        let names = [
            HeaderName::CallId,
            HeaderName::From,
            HeaderName::CSeq,
            HeaderName::Route,
        ];
        let fields = names.iter().flat_map(|name| request.headers.raw(name));
        self.seal(std::iter::once(uri.as_str()).chain(fields))
    }

    fn seal<'a>(&self, texts: impl Iterator<Item = &'a str>) -> String {
        let mut context = hmac::Context::with_key(&self.key);
        for text in texts {
            context.update(&(text.len() as u64).to_be_bytes());
            context.update(text.as_bytes());
        }
        let tag = context.sign();
        tag.as_ref()[..8]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

/// Returns the best final response of all targets (RFC 3261 §16.7 step 6): 2xx, then 6xx, then the
/// lowest class; within a class, responses that help to ask again come first.
#[must_use]
pub fn best(responses: &[Response]) -> Option<&Response> {
    responses.iter().min_by_key(|response| {
        let class = response.status.as_u16() / 100;
        let order = match class {
            2 => 0,
            6 => 1,
            other => other,
        };
        let helps = matches!(response.status.as_u16(), 401 | 407 | 415 | 420 | 484);
        (order, !helps)
    })
}

/// Max-Forwards of a request without that field (RFC 3261 §16.6 step 3).
const DEFAULT_HOPS: u8 = 70;
