//! A sent request (RFC 3261 §17.1, RFC 6026 §7.2).

use std::time::Duration;

use bytes::Bytes;
use hawser_types::Instant;

use super::{Config, Failure, Flow};
use crate::fields::{CSeq, Field, MaxForwards};
use crate::message::{HeaderName, Method, Request, Response};

/// State of a sent request.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) flow: Flow,
    request: Request,
    bytes: Bytes,
    is_invite: bool,
    state: State,
    /// Time of the next retransmission, and the pause before it.
    again: Option<(Instant, Duration)>,
    ends: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// "Calling" of INVITE, "trying" of others.
    Trying,
    Proceeding,
    Accepted,
    Completed,
}

/// Reaction to a response.
#[derive(Debug, Default)]
pub(super) struct Reaction {
    /// Whether the owner gets the response.
    pub(super) is_news: bool,
    /// An ACK to send.
    pub(super) ack: Option<Bytes>,
}

impl Client {
    /// Creates the transaction of a request that is sent now.
    pub(super) fn new(now: Instant, flow: Flow, request: Request, config: &Config) -> Self {
        Self {
            flow,
            bytes: request.to_bytes(),
            is_invite: request.method == Method::Invite,
            request,
            state: State::Trying,
            // Timers A and E, B and F.
            again: (!flow.is_reliable).then_some((now + config.t1, config.t1)),
            ends: now + config.patience(),
        }
    }

    pub(super) fn bytes(&self) -> Bytes {
        self.bytes.clone()
    }

    /// Returns the time of the next timer.
    pub(super) fn due(&self) -> Instant {
        match self.again {
            Some((at, _)) => at.min(self.ends),
            None => self.ends,
        }
    }

    /// Whether the transaction has ended.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.ends <= now
    }

    /// Returns the reason of failure if there is no final response.
    pub(super) fn failure(&self) -> Option<Failure> {
        let is_open = matches!(self.state, State::Trying | State::Proceeding);
        is_open.then_some(Failure::Timeout)
    }

    pub(super) fn handle_response(
        &mut self,
        now: Instant,
        response: &Response,
        config: &Config,
    ) -> Reaction {
        let news = Reaction {
            is_news: true,
            ack: None,
        };
        match (self.state, response.status) {
            (State::Trying | State::Proceeding, status) if status.is_provisional() => {
                self.proceed(now, config);
                news
            }
            (State::Trying | State::Proceeding, status)
                if self.is_invite && status.is_success() =>
            {
                // Timer M: other servers may answer, too.
                self.move_to(State::Accepted, now + config.patience());
                news
            }
            (State::Trying | State::Proceeding, _) if self.is_invite => {
                // Timer D.
                let linger = Config::linger(self.flow, config.patience());
                self.move_to(State::Completed, now + linger);
                Reaction {
                    ack: Some(self.ack(response)),
                    ..news
                }
            }
            (State::Trying | State::Proceeding, _) => {
                // Timer K.
                let linger = Config::linger(self.flow, config.t4);
                self.move_to(State::Completed, now + linger);
                news
            }
            (State::Accepted, status) if status.is_success() => news,
            (State::Completed, status) if self.is_invite && !status.is_provisional() => Reaction {
                // The far end repeats its response: the ACK was lost.
                ack: (!status.is_success()).then(|| self.ack(response)),
                is_news: false,
            },
            _ => Reaction::default(),
        }
    }

    /// Returns the bytes to retransmit now.
    pub(super) fn handle_timeout(&mut self, now: Instant, config: &Config) -> Option<Bytes> {
        let (at, pause) = self.again?;
        if at > now {
            return None;
        }
        let pause = match (self.is_invite, self.state) {
            (true, _) => pause * 2,
            (false, State::Trying) => (pause * 2).min(config.t2),
            (false, _) => config.t2,
        };
        self.again = Some((now + pause, pause));
        Some(self.bytes())
    }

    fn proceed(&mut self, now: Instant, config: &Config) {
        if self.is_invite {
            self.move_to(State::Proceeding, now + config.ringing);
        } else {
            // The request is still retransmitted, so that a lost final response is sent again.
            self.state = State::Proceeding;
        }
    }

    fn move_to(&mut self, state: State, ends: Instant) {
        self.state = state;
        self.again = None;
        self.ends = ends;
    }

    /// Returns the ACK for a response other than 2xx (RFC 3261 §17.1.1.3).
    fn ack(&self, response: &Response) -> Bytes {
        let own = &self.request.headers;
        let mut ack = Request::new(Method::Ack, self.request.uri.clone());
        if let Ok([via, ..]) = own.vias().as_deref() {
            ack.headers.push(HeaderName::Via, via);
        }
        for value in own.raw(&HeaderName::Route) {
            ack.headers.push(HeaderName::Route, value);
        }
        ack.headers.push(HeaderName::MaxForwards, MAX_FORWARDS);
        for (name, headers) in [
            (HeaderName::From, own),
            (HeaderName::To, &response.headers),
            (HeaderName::CallId, own),
        ] {
            for value in headers.raw(&name) {
                ack.headers.push(name.clone(), value);
            }
        }
        for value in own.raw(&HeaderName::CSeq) {
            if let Ok(CSeq { number, .. }) = CSeq::parse(value) {
                let method = Method::Ack;
                ack.headers.push(HeaderName::CSeq, CSeq { number, method });
            }
        }
        ack.to_bytes()
    }
}

const MAX_FORWARDS: MaxForwards = MaxForwards(70);
