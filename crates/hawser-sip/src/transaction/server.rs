//! A received request (RFC 3261 §17.2, RFC 6026 §7.1).

use std::time::Duration;

use bytes::Bytes;
use hawser_types::Instant;

use super::{Config, Flow, RespondError};
use crate::message::{Method, Request, Response, StatusCode};

/// State of a received request.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) flow: Flow,
    is_invite: bool,
    /// Whether the sender gets as few messages as possible, because its address may be forged.
    is_spared: bool,
    state: State,
    /// The latest response, which is sent again when the request is repeated.
    answer: Option<Bytes>,
    /// A `100 Trying` for an unanswered INVITE, and the time to send it.
    trying: Option<(Instant, Bytes)>,
    /// Time of the next retransmission of the response, and the pause before it.
    again: Option<(Instant, Duration)>,
    ends: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// "Trying" and "proceeding".
    Open,
    Accepted,
    Completed,
    Confirmed,
}

impl Server {
    pub(super) fn new(now: Instant, flow: Flow, request: &Request, config: &Config) -> Self {
        let is_invite = request.method == Method::Invite;
        let trying = is_invite.then(|| {
            let trying = Response::new(request, StatusCode::TRYING, None);
            (now + TRYING_AFTER, trying.to_bytes())
        });
        let patience = if is_invite {
            config.ringing
        } else {
            // The caller has given up by then.
            config.patience()
        };
        Self {
            flow,
            is_invite,
            is_spared: false,
            state: State::Open,
            answer: None,
            trying,
            again: None,
            ends: now + patience,
        }
    }

    /// Returns the time of the next timer.
    pub(super) fn due(&self) -> Instant {
        let trying = self.trying.as_ref().map(|(at, _)| *at);
        let again = self.again.map(|(at, _)| at);
        let first = trying.into_iter().chain(again).min();
        first.map_or(self.ends, |first| first.min(self.ends))
    }

    /// Whether the transaction has ended.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.ends <= now
    }

    /// Whether it ended without a final response, or an INVITE without its ACK.
    pub(super) fn is_abandoned(&self) -> bool {
        self.state == State::Open || (self.is_invite && self.state == State::Completed)
    }

    /// Limits responses to a possibly forged address: at most one provisional response and one
    /// final one, repeated only when the request is.
    pub(super) fn spare(&mut self) {
        self.is_spared = true;
        self.trying = None;
    }

    /// Handles a repeated request, and returns the response to repeat.
    pub(super) fn handle_again(&mut self) -> Option<Bytes> {
        match self.state {
            State::Open | State::Completed => self.answer.clone(),
            State::Accepted if self.is_spared => self.answer.clone(),
            State::Accepted | State::Confirmed => None,
        }
    }

    /// Handles an ACK. Returns whether it is for the owner: the ACK for a 2xx.
    pub(super) fn handle_ack(&mut self, now: Instant, config: &Config) -> bool {
        match self.state {
            State::Completed if self.is_invite => {
                self.state = State::Confirmed;
                self.again = None;
                // Timer I.
                self.ends = now + Config::linger(self.flow, config.t4);
                false
            }
            State::Accepted => true,
            _ => false,
        }
    }

    /// Takes the owner's response and returns the bytes to send now.
    pub(super) fn respond(
        &mut self,
        now: Instant,
        response: &Response,
        config: &Config,
    ) -> Result<Option<Bytes>, RespondError> {
        let status = response.status;
        let is_more = self.state == State::Accepted && status.is_success();
        if self.state != State::Open && !is_more {
            return Err(RespondError::Answered);
        }
        let was_answered = self.answer.is_some();
        let is_repetition = is_more || (status.is_provisional() && was_answered);
        if self.is_spared && is_repetition {
            return Ok(None);
        }
        let bytes = Some(response.to_bytes());
        self.trying = None;
        self.answer.clone_from(&bytes);
        if is_more || status.is_provisional() {
            return Ok(bytes);
        }
        if self.is_invite && status.is_success() {
            self.state = State::Accepted;
            // Timer L. The owner repeats a 2xx until its ACK arrives (RFC 3261 §13.3.1.4).
            self.ends = now + config.patience();
            return Ok(bytes);
        }
        self.state = State::Completed;
        self.ends = if self.is_invite {
            // Timers G and H.
            let is_repeated = !self.flow.is_reliable && !self.is_spared;
            self.again = is_repeated.then_some((now + config.t1, config.t1));
            now + config.patience()
        } else {
            // Timer J.
            now + Config::linger(self.flow, config.patience())
        };
        Ok(bytes)
    }

    /// Returns the bytes to send now.
    pub(super) fn handle_timeout(&mut self, now: Instant, config: &Config) -> Option<Bytes> {
        if let Some((_, trying)) = self.trying.take_if(|(at, _)| *at <= now) {
            self.answer = Some(trying.clone());
            return Some(trying);
        }
        let (_, pause) = self.again.filter(|(at, _)| *at <= now)?;
        let pause = (pause * 2).min(config.t2);
        self.again = Some((now + pause, pause));
        self.answer.clone()
    }
}

/// RFC 3261 §17.2.1.
const TRYING_AFTER: Duration = Duration::from_millis(200);
