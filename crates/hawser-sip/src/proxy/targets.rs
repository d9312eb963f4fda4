//! Where a request for somebody of a domain goes (RFC 3261 §16.5, §16.6).

use hawser_types::Instant;

use super::{Decision, Forward, Proxy, ROUTE_SEAL};
use crate::fields::NameAddr;
use crate::message::{HeaderName, Method, Refusal, Request, StatusCode};
use crate::registrar::{Binding, Location};
use crate::uri::Uri;

impl Proxy {
    pub(super) fn targets(
        &self,
        now: Instant,
        request: &Request,
        mark: &str,
        location: &Location,
    ) -> Result<Decision, Refusal> {
        let Some(address) = self
            .served(&request.uri)
            .and_then(|uri| uri.address_of_record())
        else {
            return Ok(Decision::Own);
        };
        let bindings = location.lookup(now, &address);
        // A contact in a domain of this proxy would be looked up again, and two that name each
        // other would multiply a request (RFC 5393).
        let targets: Vec<_> = bindings
            .iter()
            .filter(|binding| self.served(&binding.contact.uri).is_none())
            .map(|binding| self.to_binding(request, mark, binding))
            .collect();
        if targets.is_empty() {
            let status = match bindings.is_empty() {
                true => StatusCode::TEMPORARILY_UNAVAILABLE,
                false => StatusCode::LOOP_DETECTED,
            };
            return Err(Refusal::new(status, status.reason()));
        }
        Ok(Decision::Forward(targets))
    }

    fn to_binding(&self, request: &Request, mark: &str, binding: &Binding) -> Forward {
        let mut request = request.clone();
        request.uri = binding.contact.uri.clone();
        // The way to the contact, which it has registered (RFC 3327 §5.3), comes first.
        for hop in binding.path.iter().rev() {
            request.headers.push_front(HeaderName::Route, hop);
        }
        let makes_dialog = matches!(request.method, Method::Invite | Method::Subscribe);
        if makes_dialog {
            let mut own = self.own.clone();
            own.set_param("lr", None);
            own.set_param(ROUTE_SEAL, Some(&self.route_seal(&request)));
            let own = NameAddr::new(Uri::from(own));
            request.headers.push_front(HeaderName::RecordRoute, own);
        }
        let mut forward = Forward::onward(request, mark.to_owned());
        forward.stream = binding.stream;
        forward
    }
}
