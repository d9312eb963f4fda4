//! Routes that this proxy has recorded (RFC 3261 §16.6 step 4), and permissions to use them.
//!
//! Each end of a call gets its own entry in Record-Route: the called user in the request, the
//! caller in the responses. The proxy stores nothing; each entry is sealed.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hawser_types::{Host, Instant};
use subtle::ConstantTimeEq as _;

use super::Proxy;
use super::forward::first_hop;
use crate::fields::{Contacts, NameAddr, Transport};
use crate::message::{HeaderFault, HeaderName, Headers, Refusal, Request, Response};
use crate::registrar::{Binding, Location, Origin};
use crate::uri::{SipUri, Uri};

/// A route that this proxy recorded for a call, as one end of the call uses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RecordedRoute {
    /// Address of record of the called user.
    called: String,
    end: End,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum End {
    /// The called user is registered. This route leads anywhere: the caller may move, and a
    /// registered user could have requests sent anywhere by registering a contact.
    Called,
    /// The caller may be anyone. This route leads only to the called user: to the hop that the
    /// response named, with this seal, and to all current contacts.
    Caller { hop: String },
}

impl Proxy {
    /// Removes this proxy from the request's route (RFC 3261 §16.4). Returns the route if this
    /// proxy recorded it for this call.
    pub(super) fn take_own_route(
        &self,
        request: &mut Request,
    ) -> Result<Option<RecordedRoute>, Refusal> {
        let bad = |fault: HeaderFault| Refusal::unreadable(&fault);
        let mut routes = request.headers.routes(HeaderName::Route).map_err(bad)?;
        // A strict router (before RFC 3261) has put this proxy into the request's URI.
        if self.is_own(&request.uri)
            && let Some(last) = routes.pop()
        {
            let own = std::mem::replace(&mut request.uri, last.uri);
            routes.insert(0, NameAddr::new(own));
        }
        let mut way = None;
        if routes.first().is_some_and(|route| self.is_own(&route.uri)) {
            let own = routes.remove(0);
            way = self.recorded(&own.uri, &request.headers);
        }
        request.headers.remove(&HeaderName::Route);
        for route in routes {
            request.headers.push(HeaderName::Route, route);
        }
        Ok(way)
    }

    /// Returns the Record-Route entry for the called user.
    pub(super) fn record(&self, request: &Request, called: &str) -> NameAddr {
        self.entry(&request.headers, (CALLED, called), None)
    }

    /// Returns the route in a Route entry of this proxy, if this proxy recorded it for the call of
    /// these header fields.
    pub(super) fn recorded(&self, own: &Uri, headers: &Headers) -> Option<RecordedRoute> {
        let uri = own.as_sip()?;
        let called = URL_SAFE_NO_PAD.decode(uri.param(ADDRESS)?).ok()?;
        let called = String::from_utf8(called).ok()?;
        let is_sealed = |end: &'static str| {
            let expected = self.call_seal(headers, &[end, &called]);
            let seal = uri.param(SEAL).unwrap_or_default();
            bool::from(seal.as_bytes().ct_eq(expected.as_bytes()))
        };
        let end = if is_sealed(CALLED) {
            End::Called
        } else if is_sealed(CALLER) {
            let hop = uri.param(HOP).unwrap_or_default().to_owned();
            End::Caller { hop }
        } else {
            return None;
        };
        Some(RecordedRoute { called, end })
    }

    /// Checks whether a request may take this route to its next hop. Returns the origin of that
    /// hop's registration, empty if it is not registered; `None` if the request may not.
    pub(super) fn follow(
        &self,
        now: Instant,
        way: &RecordedRoute,
        request: &Request,
        location: &Location,
    ) -> Option<Origin> {
        let first = first_hop(request);
        let next = place(&first)?;
        let far = match way.end {
            End::Called => request
                .headers
                .to()
                .ok()
                .and_then(|to| self.address(&to.uri)),
            End::Caller { .. } => Some(way.called.clone()),
        };
        let bindings = far.map(|address| location.lookup(now, &address));
        let bindings: Vec<_> = bindings.into_iter().flatten().collect();
        let is_next = |binding: &&Binding| {
            let first = binding.path.first().unwrap_or(&binding.contact);
            place(&first.uri).as_ref() == Some(&next)
        };
        if let Some(binding) = bindings.iter().find(is_next) {
            return Some(binding.way_back());
        }
        // A telephone may answer with another contact than it registers, such as another port. It
        // is reached at the address from which its user registered.
        let to = first.as_sip().map(|it| it.host.to_canonical());
        let mut origins = bindings.iter().filter_map(|it| it.origin.address);
        let heard = Origin {
            address: origins.find(|heard| to == Some(Host::Ip(*heard))),
            stream: None,
        };
        match &way.end {
            End::Called => Some(heard),
            End::Caller { hop } => {
                let expected = self.call_seal(&request.headers, &[HOP, &next]);
                let is_sealed = bool::from(hop.as_bytes().ct_eq(expected.as_bytes()));
                is_sealed.then_some(heard)
            }
        }
    }

    /// Replaces the called user's Record-Route entry by the caller's own (RFC 3261 §16.7 step 8),
    /// because the caller must not get the former.
    pub(super) fn record_for_caller(&self, answer: &mut Response) {
        let Ok(mut routes) = answer.headers.routes(HeaderName::RecordRoute) else {
            // An unreadable Record-Route may hold an entry that is not for the caller.
            answer.headers.remove(&HeaderName::RecordRoute);
            return;
        };
        let mut own = Vec::new();
        for (number, route) in routes.iter().enumerate() {
            let is_own = self.is_own(&route.uri);
            let way = is_own.then(|| self.recorded(&route.uri, &answer.headers));
            let Some(RecordedRoute {
                called,
                end: End::Called,
            }) = way.flatten()
            else {
                continue;
            };
            let next = match number.checked_sub(1) {
                Some(above) => Some(routes[above].uri.clone()),
                None => contact(&answer.headers),
            };
            let hop = next.as_ref().and_then(place);
            let hop = hop.map(|next| self.call_seal(&answer.headers, &[HOP, &next]));
            let entry = self.entry(&answer.headers, (CALLER, &called), hop.as_deref());
            own.push((number, entry));
        }
        if own.is_empty() {
            return;
        }
        for (number, entry) in own {
            routes[number] = entry;
        }
        answer.headers.remove(&HeaderName::RecordRoute);
        for route in routes {
            answer.headers.push(HeaderName::RecordRoute, route);
        }
    }

    fn entry(&self, headers: &Headers, (end, called): (&str, &str), hop: Option<&str>) -> NameAddr {
        let mut own = self.own.clone();
        own.set_param("lr", None);
        own.set_param(ADDRESS, Some(&URL_SAFE_NO_PAD.encode(called)));
        if hop.is_some() {
            own.set_param(HOP, hop);
        }
        own.set_param(SEAL, Some(&self.call_seal(headers, &[end, called])));
        NameAddr::new(Uri::from(own))
    }

    /// Seals parts of a call. The first of `what` is no URI, so the seal never equals a loop mark.
    fn call_seal(&self, headers: &Headers, what: &[&str]) -> String {
        let call = headers.raw(&HeaderName::CallId);
        self.seal(what.iter().copied().chain(call))
    }

    fn address(&self, uri: &Uri) -> Option<String> {
        self.served(uri).and_then(SipUri::address_of_record)
    }
}

fn contact(headers: &Headers) -> Option<Uri> {
    match headers.contacts() {
        Ok(Contacts::List(list)) => list.into_iter().next().map(|contact| contact.uri),
        _ => None,
    }
}

/// Returns the transport, host and port of a URI: equal for URIs that lead to the same place.
fn place(uri: &Uri) -> Option<String> {
    let uri = uri.as_sip()?;
    let transport = Transport::to_uri(uri);
    let port = uri.port.unwrap_or_else(|| transport.default_port());
    Some(format!("{transport} {}:{port}", uri.host.to_canonical()))
}

/// Names of the two ends in seals.
const CALLED: &str = "called";
const CALLER: &str = "caller";
/// Parameters of this proxy in Record-Route: the called user's address of record, the hop that the
/// caller may reach, and the seal that proves the entry.
const ADDRESS: &str = "a";
const HOP: &str = "h";
const SEAL: &str = "d";
