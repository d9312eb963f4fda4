//! Messages that a session sends.

use hawser_types::Instant;

use super::{Calling, EndReason, LONGEST_PAUSE, Outgoing, Own, Queued, Session, State, Update};
use crate::fields::{CSeq, MaxForwards, NameAddr, Via};
use crate::message::{HeaderName, Method, Request, Response, StatusCode};
use crate::sdp::CONTENT_TYPE;

impl Session {
    /// Returns the next message to send. `via` has a new branch.
    pub fn poll_outgoing(&mut self, now: Instant, via: &Via) -> Option<Outgoing> {
        if let Some(queued) = self.queue.pop_front() {
            return Some(match queued {
                Queued::Ack { dialog, invite } => Outgoing::Ack(dialog.ack(invite, via)),
                Queued::Bye { mut dialog } => Outgoing::Request(dialog.request(Method::Bye, via)),
            });
        }
        let own = &self.own;
        match &mut self.state {
            State::Calling(calling) => {
                let request = calling.poll(own, via)?;
                // A CANCEL carries no description.
                self.is_told |= request.method == Method::Invite;
                Some(Outgoing::Request(request))
            }
            State::Accepted {
                response,
                again,
                pause,
                ends,
                ..
            } => {
                if *ends <= now {
                    // No ACK arrived: the session is ended (RFC 3261 §13.3.1.4).
                    self.say_bye();
                    return self.poll_outgoing(now, via);
                }
                if *again > now {
                    return None;
                }
                *pause = (*pause * 2).min(LONGEST_PAUSE);
                *again = now + *pause;
                Some(Outgoing::Again(response.clone()))
            }
            State::Established { dialog, .. } => {
                let may_ask = match self.update {
                    Update::None => true,
                    Update::Asking => false,
                    Update::Waiting(until) => until <= now,
                };
                if self.is_told || !may_ask {
                    return None;
                }
                self.is_told = true;
                self.update = Update::Asking;
                let mut request = dialog.request(Method::Update, via);
                describe(&mut request.headers, own);
                request.body = own.description.clone();
                Some(Outgoing::Request(request))
            }
            State::Ending { .. } | State::Over => None,
        }
    }

    pub(super) fn acknowledge(&mut self, dialog: &crate::dialog::Dialog, invite: u32) {
        let dialog = dialog.clone();
        self.queue.push_back(Queued::Ack { dialog, invite });
    }

    pub(super) fn refused(&mut self, status: StatusCode) {
        self.end(EndReason::Refused(status));
    }
}

impl Calling {
    /// Returns the INVITE, or its CANCEL.
    fn poll(&mut self, own: &Own, via: &Via) -> Option<Request> {
        let Some(invite) = &self.invite else {
            let invite = self.invite(own, via);
            self.invite = Some(invite.clone());
            return Some(invite);
        };
        if !self.is_given_up || !self.is_heard || self.is_cancelled {
            return None;
        }
        let cancel = invite.to_cancel();
        self.is_cancelled = true;
        Some(cancel)
    }

    fn invite(&self, own: &Own, via: &Via) -> Request {
        let call = &self.call;
        let method = Method::Invite;
        let mut invite = Request::new(method.clone(), call.target.clone());
        let headers = &mut invite.headers;
        let mut from = call.local.clone();
        from.params.set("tag", &call.tag);
        headers.push(HeaderName::Via, via);
        headers.push(HeaderName::MaxForwards, MaxForwards(70));
        headers.push(HeaderName::From, from);
        headers.push(HeaderName::To, &call.remote);
        headers.push(HeaderName::CallId, &call.call_id);
        let number = FIRST_NUMBER;
        headers.push(HeaderName::CSeq, CSeq { number, method });
        headers.push(HeaderName::Allow, ALLOWED);
        describe(headers, own);
        invite.body = own.description.clone();
        invite
    }
}

/// Returns the 2xx to an INVITE or UPDATE.
pub(super) fn success(request: &Request, tag: Option<&str>, own: &Own) -> Response {
    let mut response = Response::new(request, StatusCode::OK, tag);
    // The proxies' Record-Route is the route within the dialog (RFC 3261 §12.1.1).
    for value in request.headers.raw(&HeaderName::RecordRoute) {
        response.headers.push(HeaderName::RecordRoute, value);
    }
    response.headers.push(HeaderName::Allow, ALLOWED);
    describe(&mut response.headers, own);
    response.body = own.description.clone();
    response
}

fn describe(headers: &mut crate::message::Headers, own: &Own) {
    headers.push(HeaderName::Contact, NameAddr::new(own.contact.clone()));
    headers.push(HeaderName::ContentType, CONTENT_TYPE);
}

/// CSeq of the INVITE.
const FIRST_NUMBER: u32 = 1;

/// Methods that a session supports.
pub(super) const ALLOWED: &str = "INVITE, ACK, CANCEL, BYE, UPDATE, OPTIONS";
