//! Received messages of a session.

use std::time::Duration;

use hawser_types::Instant;

use super::outgoing::{ALLOWED, success};
use super::{
    Calling, EndReason, FIRST_PAUSE, FIRST_RETRY, Incoming, LONGEST_RETRY, Own, PATIENCE, Queued,
    Role, Session, SessionEvent, State, Update,
};
use crate::dialog::{Dialog, DialogFault};
use crate::fields::CSeq;
use crate::message::{HeaderName, Method, Request, Response, StatusCode};

impl Session {
    /// Creates a session for the far end's `invite`, which this end accepts. The INVITE's
    /// transaction sends the response.
    ///
    /// # Errors
    /// When the request lacks what a session needs.
    pub fn answer(
        now: Instant,
        invite: &Request,
        tag: &str,
        own: Own,
    ) -> Result<(Self, Response), DialogFault> {
        let dialog = Dialog::of_server(invite, tag)?;
        let response = success(invite, Some(tag), &own);
        let state = State::Accepted {
            dialog,
            response: response.clone(),
            again: now + FIRST_PAUSE,
            pause: FIRST_PAUSE,
            ends: now + PATIENCE,
            is_given_up: false,
        };
        let mut session = Self::new(Role::Called, state, own);
        session.is_told = true;
        Ok((session, response))
    }

    /// Handles a response to a request of this session, which its CSeq identifies.
    pub fn handle_response(&mut self, now: Instant, response: &Response) {
        let Ok(CSeq { method, number }) = response.headers.cseq() else {
            return;
        };
        match method {
            Method::Invite => self.handle_invited(response, number),
            Method::Update => self.handle_updated(now, response),
            Method::Bye if !response.status.is_provisional() => self.end(EndReason::Local),
            // The outcome of the INVITE makes the response to CANCEL irrelevant.
            _ => {}
        }
    }

    /// Records that a request of this session got no answer.
    pub fn handle_failure(&mut self, now: Instant, method: &Method) {
        match method {
            Method::Invite => self.end(EndReason::NoAnswer),
            // This end may have just lost its link, and the far end may be unchanged.
            Method::Update if self.update == Update::Asking => self.not_reached(now),
            // Ask again for the far end's description, which the lost response would have carried.
            Method::Update => self.is_told = false,
            Method::Bye => self.end(EndReason::Local),
            _ => {}
        }
    }

    /// Handles a request within the session ([`Dialog::is_of`]).
    pub fn handle_request(&mut self, request: &Request) -> Incoming {
        let dialog = match &mut self.state {
            State::Accepted { dialog, .. }
            | State::Established { dialog, .. }
            | State::Ending { dialog } => dialog,
            State::Calling(_) | State::Over => {
                let answer = Response::new(request, StatusCode::NO_TRANSACTION, None);
                return match request.method {
                    Method::Ack => Incoming::Nothing,
                    _ => Incoming::Answer(answer),
                };
            }
        };
        // The far end's CSeq is checked before the request changes anything.
        if let Err(fault) = dialog.handle_request(request) {
            let answer = Response::new(request, fault.status(), None);
            return Incoming::Answer(answer.with_reason(&fault.to_string()));
        }
        self.react(request)
    }

    fn react(&mut self, request: &Request) -> Incoming {
        let answer = |status| Response::new(request, status, None);
        match request.method {
            Method::Ack => {
                self.establish();
                Incoming::Nothing
            }
            Method::Bye => {
                self.end(EndReason::Remote);
                Incoming::Answer(answer(StatusCode::OK))
            }
            Method::Update | Method::Invite if request.body.is_empty() => {
                // Without a description the request only refreshes the far end's Contact.
                Incoming::Answer(success(request, None, &self.own))
            }
            Method::Update | Method::Invite => Incoming::Offer(request.body.clone()),
            Method::Options => {
                let mut answer = answer(StatusCode::OK);
                answer.headers.push(HeaderName::Allow, ALLOWED);
                Incoming::Answer(answer)
            }
            _ => {
                let mut answer = answer(StatusCode::METHOD_NOT_ALLOWED);
                answer.headers.push(HeaderName::Allow, ALLOWED);
                Incoming::Answer(answer)
            }
        }
    }

    /// Accepts the description of an [`Incoming::Offer`], and answers with this end's own. The
    /// answer replaces a pending UPDATE of this end, which may go to an old address of the far end.
    #[must_use]
    pub fn accept(&mut self, request: &Request) -> Response {
        self.is_told = true;
        self.update = Update::None;
        self.retry = FIRST_RETRY;
        success(request, None, &self.own)
    }

    /// Refuses the description of a request: the previous one stays valid.
    #[must_use]
    pub fn refuse(&self, request: &Request) -> Response {
        Response::new(request, StatusCode::NOT_ACCEPTABLE_HERE, None)
    }

    /// Handles the ACK.
    fn establish(&mut self) {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Accepted {
                dialog,
                is_given_up,
                ..
            } => {
                self.state = State::Established { dialog, invite: 0 };
                if is_given_up {
                    self.say_bye();
                }
            }
            other => self.state = other,
        }
    }

    fn handle_invited(&mut self, response: &Response, number: u32) {
        match &mut self.state {
            State::Calling(calling) if response.status.is_provisional() => {
                calling.is_heard = true;
            }
            State::Calling(_) if response.status.is_success() => {
                match std::mem::replace(&mut self.state, State::Over) {
                    State::Calling(calling) => self.accepted(*calling, response, number),
                    other => self.state = other,
                }
            }
            State::Calling(calling) => {
                if calling.is_given_up {
                    self.end(EndReason::Local);
                } else {
                    self.refused(response.status);
                }
            }
            _ if response.status.is_success() => self.accepted_again(response, number),
            _ => {}
        }
    }

    /// Handles the first 2xx: sends ACK, and BYE if the call was given up.
    fn accepted(&mut self, calling: Calling, response: &Response, number: u32) {
        let Some(invite) = &calling.invite else {
            return;
        };
        let dialog = match Dialog::of_client(invite, response) {
            Ok(dialog) => dialog,
            Err(fault) => {
                let reason = EndReason::Answer(fault);
                self.events.push_back(SessionEvent::Ended(reason));
                return;
            }
        };
        self.acknowledge(&dialog, number);
        self.state = State::Established {
            dialog,
            invite: number,
        };
        if calling.is_given_up {
            self.say_bye();
        } else {
            let body = response.body.clone();
            self.events.push_back(SessionEvent::Accepted(body));
        }
    }

    /// Handles a further 2xx: the ACK was lost, or another server accepted as well.
    fn accepted_again(&mut self, response: &Response, number: u32) {
        let own = self.dialog().cloned();
        let Some(own) = own else {
            return;
        };
        let tag = response.headers.to().ok();
        let tag = tag.as_ref().and_then(|to| to.tag());
        if tag == own.remote().tag() {
            let is_ours =
                matches!(self.state, State::Established { invite, .. } if invite == number);
            if is_ours {
                self.acknowledge(&own, number);
            }
            return;
        }
        if self.queue.len() < MAX_QUEUED
            && let Some(other) = own.forked(response)
        {
            self.acknowledge(&other, number);
            self.queue.push_back(Queued::Bye { dialog: other });
        }
    }

    fn handle_updated(&mut self, now: Instant, response: &Response) {
        if response.status.is_provisional() {
            return;
        }
        let was_asking = self.update == Update::Asking;
        if was_asking {
            self.update = Update::None;
        } else if !response.status.is_success() {
            return;
        }
        let State::Established { dialog, .. } = &mut self.state else {
            return;
        };
        match response.status {
            status if status.is_success() => {
                match dialog.handle_success(&Method::Update, response) {
                    Ok(()) => {
                        self.retry = FIRST_RETRY;
                        let body = response.body.clone();
                        self.events.push_back(SessionEvent::Updated(body));
                    }
                    Err(fault) => self.end(EndReason::Answer(fault)),
                }
            }
            // Both ends sent an UPDATE and refused the other's: each end waits for a different
            // time, so that the next ones do not collide.
            StatusCode::REQUEST_PENDING => self.ask_again(now + self.glare_pause()),
            // The far end does not know the session (RFC 3261 §12.2.1.2).
            StatusCode::NO_TRANSACTION => self.refused(response.status),
            // The far end is unreachable at its old address; it may be moving.
            StatusCode::REQUEST_TIMEOUT
            | StatusCode::TEMPORARILY_UNAVAILABLE
            | StatusCode::SERVICE_UNAVAILABLE => self.not_reached(now),
            // The far end keeps the previous description until this end's next change.
            _ => {}
        }
    }

    fn not_reached(&mut self, now: Instant) {
        self.ask_again(now + self.retry);
        self.retry = (self.retry * 2).min(LONGEST_RETRY);
    }

    fn ask_again(&mut self, at: Instant) {
        self.is_told = false;
        self.update = Update::Waiting(at);
    }

    /// RFC 3261 §14.1 has random times: from 2.1 to 4 s and from 0 to 2 s.
    fn glare_pause(&self) -> Duration {
        match self.role {
            Role::Caller => Duration::from_millis(2100),
            Role::Called => Duration::from_millis(500),
        }
    }
}

/// Limit of queued requests, in case a server answers an INVITE a thousand times.
const MAX_QUEUED: usize = 16;
