//! Requests of other hosts.

use hawser_types::Instant;

use super::{Announcer, Call, CallEvent, Calls, Doubt, MAX_CALLS};
use crate::message::{Method, Request, Response, StatusCode};
use crate::session::{Incoming, Session};
use crate::transaction::TransactionId;

impl Calls {
    /// Returns the response to a request; `None` if it gets none.
    pub(super) fn handle_request(
        &mut self,
        now: Instant,
        announcer: &mut Announcer,
        (id, request): (TransactionId, &Request),
        cancels: Option<TransactionId>,
    ) -> Option<Response> {
        let Ok(essentials) = request.essentials() else {
            return Some(Response::new(request, StatusCode::BAD_REQUEST, Some(TAG)));
        };
        if self.call_of(request).is_some() {
            return self.handle_within(request);
        }
        if let Some(refusal) = request.refusal(&METHODS, &[]) {
            return Some(refusal.answer(request, TAG));
        }
        match request.method {
            // A CANCEL comes too late, because an INVITE is answered at once.
            Method::Cancel if cancels.is_some() => {
                Some(Response::new(request, StatusCode::OK, Some(TAG)))
            }
            Method::Invite if essentials.to.tag().is_none() => {
                Some(self.take_call(now, announcer, id, request))
            }
            _ => Some(Response::new(
                request,
                StatusCode::NO_TRANSACTION,
                Some(TAG),
            )),
        }
    }

    /// Returns the session of a request.
    pub(super) fn call_of(&mut self, request: &Request) -> Option<&mut Call> {
        let essentials = request.essentials().ok()?;
        let is_of = |call: &&mut Call| {
            let dialog = call.session.dialog();
            dialog.is_some_and(|dialog| dialog.is_of(&essentials))
        };
        self.calls.values_mut().find(is_of)
    }

    fn handle_within(&mut self, request: &Request) -> Option<Response> {
        let call = self.call_of(request)?;
        let offer = match call.session.handle_request(request) {
            Incoming::Answer(answer) => return Some(answer),
            Incoming::Nothing => return None,
            Incoming::Offer(offer) => offer,
        };
        let (call_id, name) = (call.call_id.clone(), call.peer.clone());
        let checked = self.descriptions.check(&call_id, &name, &offer, false);
        let call = self.call_of(request)?;
        match checked {
            Ok(description) => {
                let answer = call.session.accept(request);
                if !call.is_replaced {
                    let candidates = description.candidates;
                    self.events.push_back(CallEvent::Reached {
                        name,
                        candidates,
                        has_called: false,
                    });
                }
                Some(answer)
            }
            Err(_) => Some(call.session.refuse(request)),
        }
    }

    /// Handles an INVITE. A known host's addresses are reported even if its call is refused.
    fn take_call(
        &mut self,
        now: Instant,
        announcer: &mut Announcer,
        id: TransactionId,
        invite: &Request,
    ) -> Response {
        let refuse = |status| Response::new(invite, status, Some(TAG));
        let address = |name: crate::fields::NameAddr| name.uri.as_sip()?.address_of_record();
        let is_for_this = invite.headers.to().ok().and_then(address);
        if is_for_this.as_ref() != Some(&self.address) {
            return refuse(StatusCode::NOT_FOUND);
        }
        let name = invite.headers.from().ok().and_then(address);
        let (Some(name), Ok(call_id)) = (name, invite.headers.call_id()) else {
            return refuse(StatusCode::BAD_REQUEST);
        };
        let checked = self.descriptions.check_first(&call_id, &name, &invite.body);
        let description = match checked {
            Ok(description) => description,
            // One answer for both: an unknown caller must not learn which hosts are known.
            Err(Doubt::Stranger | Doubt::Wrong) => return refuse(StatusCode::DECLINE),
            Err(doubt) => {
                return refuse(StatusCode::NOT_ACCEPTABLE_HERE).with_reason(&doubt.to_string());
            }
        };
        let is_lower = self.descriptions.is_lower_than(&description.key);
        self.events.push_back(CallEvent::Reached {
            name: name.clone(),
            candidates: description.candidates,
            has_called: true,
        });
        // Both hosts call at once: the call of the lower key stays.
        let is_calling = |call: &mut Call| !call.is_replaced && call.session.dialog().is_none();
        if is_lower && self.of(&name).any(is_calling) {
            return refuse(StatusCode::BUSY_HERE);
        }
        if self.calls.len() >= MAX_CALLS {
            return refuse(StatusCode::SERVICE_UNAVAILABLE);
        }
        let own = self.descriptions.own(&self.name, &call_id, &name);
        let (session, response) = match Session::answer(now, invite, &announcer.word(), own) {
            Ok(answered) => answered,
            Err(fault) => return refuse(fault.status()).with_reason(&fault.to_string()),
        };
        for call in self.of(&name) {
            call.is_replaced = true;
            call.session.hang_up();
        }
        self.insert(name, call_id, session, Some(id));
        response
    }
}

const TAG: &str = "host";
/// Methods that are supported outside of a session.
const METHODS: [Method; 6] = [
    Method::Invite,
    Method::Ack,
    Method::Cancel,
    Method::Bye,
    Method::Update,
    Method::Options,
];
