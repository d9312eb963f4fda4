//! What a proxy does with a request and with its answers (RFC 3261 §16): the decisions, without the
//! transactions that carry them out.

mod targets;
#[cfg(test)]
mod tests;

use hawser_types::{Host, Instant};
use ring::hmac;
use subtle::ConstantTimeEq as _;

use crate::fields::{MaxForwards, NameAddr, Via};
use crate::message::{HeaderName, Method, Refusal, Request, Response, StatusCode};
use crate::registrar::Location;
use crate::transaction::Flow;
use crate::uri::{SipUri, Uri};

/// A proxy for some domains.
#[derive(Debug)]
pub struct Proxy {
    /// Where this proxy is, as Record-Route and Via have it.
    own: SipUri,
    domains: Vec<Host>,
    key: hmac::Key,
}

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It is refused.
    Refuse(Refusal),
    /// It is for the proxy itself, as OPTIONS without a user is.
    Own,
    /// It goes to each of these, the preferred ones first.
    Forward(Vec<Forward>),
}

/// A request on its way to one target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    /// The request, without the Via of this proxy: see [`Proxy::add_via`].
    pub request: Request,
    /// Where it is sent.
    pub next_hop: Uri,
    /// The stream over which the target has registered, to be preferred while it is open.
    pub stream: Option<Flow>,
    /// What tells the proxy that it has seen this request.
    mark: String,
}

impl Proxy {
    /// A proxy at `own`, which has neither user nor parameters. `key` is secret and random: by it
    /// the proxy knows requests that have come round in a circle, and ways that it has recorded.
    /// One that is kept lets calls outlive a restart.
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

    /// Returns the answer that tells who asks where to look, instead of forwarding (RFC 3261
    /// §8.3): all contacts with q. `None` where the request is for nobody of this proxy's domains.
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
        let status = match bindings.is_empty() {
            true => StatusCode::TEMPORARILY_UNAVAILABLE,
            false => StatusCode::MOVED_TEMPORARILY,
        };
        let mut answer = Response::new(request, status, Some(tag));
        for binding in &bindings {
            let contact = binding.to_contact(now);
            answer.headers.push(HeaderName::Contact, contact);
        }
        Some(answer)
    }

    /// Puts the Via of this proxy on a request; `unique` is a token that was not used before.
    pub fn add_via(forward: &mut Forward, mut via: Via, unique: &str) {
        let branch = format!("z9hG4bK{unique}.{}", forward.mark);
        via.params.set("branch", &branch);
        forward.request.headers.push_front(HeaderName::Via, via);
    }

    /// Takes this proxy's Via off an answer (RFC 3261 §16.7), and returns it with the hop that it
    /// goes to. `None` where nobody is left, or the first Via is not this proxy's: `is_own`.
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
        Some((answer, next.clone()))
    }

    fn decide(
        &self,
        now: Instant,
        request: &Request,
        location: &Location,
    ) -> Result<Decision, Refusal> {
        let mark = self.check(request)?;
        let mut request = request.clone();
        let was_recorded = self.take_own_route(&mut request)?;
        let hops = request.headers.max_forwards().ok().flatten();
        let hops = hops.map_or(DEFAULT_HOPS, |hops| hops.0 - 1);
        request
            .headers
            .set(HeaderName::MaxForwards, MaxForwards(hops));
        // Elsewhere only along a way that this proxy has recorded: it is no relay.
        let is_known = was_recorded && request.headers.to().is_ok_and(|to| to.tag().is_some());
        let is_served = self.served(&request.uri).is_some();
        let is_inside = is_served && !request.headers.contains(&HeaderName::Route);
        if !is_known && !is_inside {
            let reason = "the domain is not served here";
            return Err(Refusal::new(StatusCode::FORBIDDEN, reason));
        }
        if !is_served {
            return Ok(Decision::Forward(vec![Forward::onward(request, mark)]));
        }
        self.targets(now, &request, &mark, location)
    }

    /// RFC 3261 §16.3. Returns the mark of the request.
    fn check(&self, request: &Request) -> Result<String, Refusal> {
        let essentials = request
            .essentials()
            .map_err(|fault| Refusal::new(StatusCode::BAD_REQUEST, fault.to_string()))?;
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
        match marks
            .filter_map(|branch| branch.rsplit_once('.'))
            .any(|(_, own)| own == mark)
        {
            true => plain(StatusCode::LOOP_DETECTED),
            false => Ok(mark),
        }
    }

    /// Takes this proxy off the way of the request (RFC 3261 §16.4). Returns whether it has
    /// recorded that way for this call.
    fn take_own_route(&self, request: &mut Request) -> Result<bool, Refusal> {
        let bad = |fault: crate::message::HeaderFault| {
            Refusal::new(StatusCode::BAD_REQUEST, fault.to_string())
        };
        let mut routes = request.headers.routes(HeaderName::Route).map_err(bad)?;
        // Who routes as before RFC 3261 has put this proxy into the request's URI.
        if self.is_own(&request.uri)
            && let Some(last) = routes.pop()
        {
            let own = std::mem::replace(&mut request.uri, last.uri);
            routes.insert(0, NameAddr::new(own));
        }
        let mut was_recorded = false;
        if routes.first().is_some_and(|route| self.is_own(&route.uri)) {
            let own = routes.remove(0);
            was_recorded = self.has_recorded(&own.uri, request);
        }
        request.headers.remove(&HeaderName::Route);
        for route in routes {
            request.headers.push(HeaderName::Route, route);
        }
        Ok(was_recorded)
    }

    fn is_own(&self, uri: &Uri) -> bool {
        uri.as_sip().is_some_and(|uri| {
            let is_here = uri.host.to_canonical() == self.own.host.to_canonical();
            is_here && uri.port == self.own.port && uri.escaped_user().is_none()
        })
    }

    /// The URI, if its domain is one of this proxy's.
    fn served<'a>(&self, uri: &'a Uri) -> Option<&'a SipUri> {
        let uri = uri.as_sip()?;
        let host = uri.host.to_canonical();
        self.domains.contains(&host).then_some(uri)
    }

    /// What a request that has come round has in common with itself: everything that its way
    /// depends on (RFC 3261 §16.6 step 8, RFC 5393 §4.2.2). No other proxy can make it.
    fn mark(&self, request: &Request) -> String {
        let uri = request.uri.to_string();
        let names = [
            HeaderName::CallId,
            HeaderName::From,
            HeaderName::CSeq,
            HeaderName::Route,
        ];
        let fields = names.iter().flat_map(|name| request.headers.raw(name));
        self.seal(&uri, fields)
    }

    /// Shows that this proxy has recorded a way for the call of a request. `route` is no URI, so
    /// that it is never a mark.
    fn route_seal(&self, request: &Request) -> String {
        self.seal("route", request.headers.raw(&HeaderName::CallId))
    }

    fn has_recorded(&self, route: &Uri, request: &Request) -> bool {
        let seal = route.as_sip().and_then(|uri| uri.param(ROUTE_SEAL));
        let expected = self.route_seal(request);
        seal.is_some_and(|seal| seal.as_bytes().ct_eq(expected.as_bytes()).into())
    }

    fn seal<'a>(&self, first: &'a str, others: impl Iterator<Item = &'a str>) -> String {
        let mut context = hmac::Context::with_key(&self.key);
        for text in std::iter::once(first).chain(others) {
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

impl Forward {
    /// The request as it is, to its next hop.
    fn onward(request: Request, mark: String) -> Self {
        let routes = request.headers.routes(HeaderName::Route);
        let first = routes.unwrap_or_default().into_iter().next();
        let next_hop = first.map_or_else(|| request.uri.clone(), |route| route.uri);
        Self {
            request,
            next_hop,
            stream: None,
            mark,
        }
    }
}

/// Returns the best of the final answers of all targets (RFC 3261 §16.7 step 6): 2xx, then 6xx,
/// then the lowest class, of which those come first that help to ask again.
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

/// The parameter of this proxy in Record-Route, without which a Route is a stranger's.
const ROUTE_SEAL: &str = "d";
/// For a request that has none (RFC 3261 §16.6 step 3).
const DEFAULT_HOPS: u8 = 70;
