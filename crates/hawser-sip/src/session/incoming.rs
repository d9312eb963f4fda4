//! What comes to a session.

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
    /// A session that the far end opens by `invite`, and this end accepts. The response is sent by
    /// the INVITE's transaction.
    ///
    /// # Errors
    /// When the request has not what a session needs.
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

    /// Takes an answer to a request of this session. Its CSeq says to which.
    pub fn handle_response(&mut self, now: Instant, response: &Response) {
        let Ok(CSeq { method, number }) = response.headers.cseq() else {
            return;
        };
        match method {
            Method::Invite => self.handle_invited(response, number),
            Method::Update => self.handle_updated(now, response),
            Method::Bye if !response.status.is_provisional() => self.end(EndReason::Local),
            // What becomes of the INVITE tells more than the answer to CANCEL.
            _ => {}
        }
    }

    /// Takes notice that a request of this session got no answer.
    pub fn handle_failure(&mut self, now: Instant, method: &Method) {
        match method {
            Method::Invite => self.end(EndReason::NoAnswer),
            // This end may have lost its link just then, and the far end is where it was.
            Method::Update if self.update == Update::Asking => self.not_reached(now),
            // What its answer would have said of the far end is asked for again.
            Method::Update => self.is_told = false,
            Method::Bye => self.end(EndReason::Local),
            _ => {}
        }
    }

    /// Takes a request within the session ([`Dialog::is_of`]).
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
        // The far end's number counts before the request changes anything.
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
                // A host that moves without a new description says where it is all the same.
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

    /// Accepts the description of a request that was [`Incoming::Offer`], and answers with this
    /// end's own. That tells all that an UPDATE of this end was to tell, which may be on its way to
    /// where the far end is no more.
    #[must_use]
    pub fn accept(&mut self, request: &Request) -> Response {
        self.is_told = true;
        self.update = Update::None;
        self.retry = FIRST_RETRY;
        success(request, None, &self.own)
    }

    /// Refuses the description of a request: the session goes on with the one before.
    #[must_use]
    pub fn refuse(&self, request: &Request) -> Response {
        Response::new(request, StatusCode::NOT_ACCEPTABLE_HERE, None)
    }

    /// The ACK has come.
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

    /// The far end has accepted: ACK, and BYE where nobody waits for it any more.
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

    /// A 2xx after the first: the ACK was lost, or another one that was asked has accepted, too.
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
            // A far end that knows no better refuses while it asks as well: each end waits for a
            // different time, so they do not meet again.
            StatusCode::REQUEST_PENDING => self.ask_again(now + self.glare_pause()),
            // The far end knows nothing of the session (RFC 3261 §12.2.1.2).
            StatusCode::NO_TRANSACTION => self.refused(response.status),
            // It is not reached where it was; it may be on its way to somewhere else.
            StatusCode::REQUEST_TIMEOUT
            | StatusCode::TEMPORARILY_UNAVAILABLE
            | StatusCode::SERVICE_UNAVAILABLE => self.not_reached(now),
            // It keeps the description before, and so does this end until the next change.
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

    /// RFC 3261 §14.1 has random times from 2.1 to 4 s and from 0 to 2 s.
    fn glare_pause(&self) -> Duration {
        match self.role {
            Role::Caller => Duration::from_millis(2100),
            Role::Called => Duration::from_millis(500),
        }
    }
}

/// What waits for a branch, at most: who answers an INVITE a thousand times gets no thousand BYE.
const MAX_QUEUED: usize = 16;
