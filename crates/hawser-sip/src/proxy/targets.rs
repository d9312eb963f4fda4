//! Targets of a request for a user of a served domain (RFC 3261 §16.5, §16.6).

use std::sync::Arc;

use hawser_types::Instant;

use super::{Common, Decision, Forward, Proxy};
use crate::message::{Method, Refusal, Request, StatusCode};
use crate::registrar::{Binding, Location};

impl Proxy {
    pub(super) fn targets(
        &self,
        now: Instant,
        request: Request,
        mark: String,
        location: &Location,
    ) -> Result<Decision, Refusal> {
        let Some(address) = self
            .served(&request.uri)
            .and_then(|uri| uri.address_of_record())
        else {
            return Ok(Decision::Own);
        };
        let bindings = location.lookup(now, &address);
        // A contact in a domain of this proxy would be looked up again, and two contacts that name
        // each other would multiply a request (RFC 5393).
        let reached = |binding: &&Binding| self.served(&binding.contact.uri).is_none();
        let makes_dialog = matches!(request.method, Method::Invite | Method::Subscribe);
        let record = makes_dialog.then(|| self.record(&request, &address));
        let common = Arc::new(Common {
            request,
            mark,
            record,
        });
        let targets = bindings.iter().filter(reached);
        let targets: Vec<_> = targets
            .map(|binding| Forward::to_binding(&common, binding))
            .collect();
        if targets.is_empty() {
            let status = if bindings.is_empty() {
                StatusCode::TEMPORARILY_UNAVAILABLE
            } else {
                StatusCode::LOOP_DETECTED
            };
            return Err(Refusal::new(status, status.reason()));
        }
        Ok(Decision::Forward(targets))
    }
}
