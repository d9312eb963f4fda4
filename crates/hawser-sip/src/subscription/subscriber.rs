//! The subscriber: sends SUBSCRIBE and handles NOTIFY.

use std::collections::VecDeque;
use std::time::Duration;

use hawser_types::Instant;
use thiserror::Error;

use crate::dialog::Dialog;
use crate::digest::{Answerer, Challenge, ChallengeFault};
use crate::fields::{CSeq, CallId, MaxForwards, NameAddr, Seconds, Via};
use crate::message::{Essentials, HeaderName, Method, Request, Response, StatusCode};
use crate::reginfo::{CONTENT_TYPE, PACKAGE, RegInfo, RegisteredContact, Watched};
use crate::uri::Uri;

/// Parameters of a subscription.
#[derive(Clone, Debug)]
pub struct SubscriptionConfig {
    /// The address of record of this end.
    pub local: NameAddr,
    /// The address of record whose bindings are watched.
    pub remote: NameAddr,
    /// URI at which NOTIFY reaches this end.
    pub contact: Uri,
    /// Call-ID that was not used before.
    pub call_id: CallId,
    /// The tag of From: a token that was not used before.
    pub tag: String,
    /// Lifetime of a subscription before its refresh.
    pub lifetime: Duration,
}

/// Event of a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubscriptionEvent {
    /// The contacts have changed: [`Subscription::contacts`].
    Changed,
    /// The subscription failed. The next attempt follows automatically.
    Failed {
        /// The reason.
        fault: SubscriptionFault,
        /// When the next attempt is made.
        next: Instant,
    },
}

/// Reason why there is no subscription.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SubscriptionFault {
    /// The registrar does not answer.
    #[error("the registrar does not answer")]
    NoAnswer,
    /// The registrar refused.
    #[error("the registrar answers {0}")]
    Refused(StatusCode),
    /// The registrar sent a challenge that can't be answered.
    #[error("the registrar asks for a proof: {0}")]
    Challenge(#[from] ChallengeFault),
    /// The answer creates no dialog.
    #[error("the registrar's answer makes no subscription")]
    Answer,
    /// The registrar ended the subscription.
    #[error("the registrar has ended the subscription")]
    Ended,
}

/// Watches the bindings of one address of record.
///
/// Call [`Subscription::poll_request`] at [`Subscription::poll_timeout`], send what it returns, and
/// pass the final response back. Requests for which [`Subscription::is_of`] is true go to
/// [`Subscription::handle_notify`].
#[derive(Debug)]
pub struct Subscription {
    config: SubscriptionConfig,
    answerer: Option<Answerer>,
    dialog: Option<Dialog>,
    watched: Watched,
    state: State,
    number: u32,
    failures: u32,
    events: VecDeque<SubscriptionEvent>,
}

#[derive(Debug)]
enum State {
    Due(Instant),
    Asking(Request),
}

impl Subscription {
    /// Creates a subscription that starts now.
    #[must_use]
    pub fn new(now: Instant, config: SubscriptionConfig, answerer: Option<Answerer>) -> Self {
        Self {
            config,
            answerer,
            dialog: None,
            watched: Watched::default(),
            state: State::Due(now),
            number: 0,
            failures: 0,
            events: VecDeque::new(),
        }
    }

    /// Returns the latest known contacts of the address, the preferred ones first.
    #[must_use]
    pub fn contacts(&self) -> Vec<&RegisteredContact> {
        self.watched.contacts()
    }

    /// Returns the time of the next call to [`Subscription::poll_request`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        match self.state {
            State::Due(at) => Some(at),
            State::Asking(_) => None,
        }
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<SubscriptionEvent> {
        self.events.pop_front()
    }

    /// Returns the request to send now, if one is due. `via` has a new branch; `cnonce` is a token
    /// that was not used before.
    pub fn poll_request(&mut self, now: Instant, via: &Via, cnonce: &str) -> Option<Request> {
        if self.poll_timeout()? > now {
            return None;
        }
        let method = Method::Subscribe;
        let mut request = match &mut self.dialog {
            Some(dialog) => dialog.request(method, via),
            None => self.first(via),
        };
        let contact = NameAddr::new(self.config.contact.clone());
        let seconds = u32::try_from(self.config.lifetime.as_secs()).unwrap_or(u32::MAX);
        let target = request.uri.to_string();
        let headers = &mut request.headers;
        headers.push(HeaderName::Contact, contact);
        headers.push(HeaderName::Event, PACKAGE);
        headers.push(HeaderName::Accept, CONTENT_TYPE);
        headers.push(HeaderName::Expires, Seconds(seconds));
        let proof = self
            .answerer
            .as_mut()
            .and_then(|answerer| answerer.credentials(&Method::Subscribe, &target, cnonce));
        if let Some(proof) = proof {
            headers.push(HeaderName::Authorization, proof);
        }
        self.state = State::Asking(request.clone());
        Some(request)
    }

    /// Handles a response to the latest request. A provisional one changes nothing.
    pub fn handle_response(&mut self, now: Instant, response: &Response) {
        if response.status.is_provisional() {
            return;
        }
        let State::Asking(request) = &self.state else {
            return;
        };
        let request = request.clone();
        match response.status {
            status if status.is_success() => self.accepted(now, &request, response),
            StatusCode::UNAUTHORIZED => match self.prove(response) {
                Ok(()) => self.state = State::Due(now),
                Err(fault) => self.fail(now, fault.into(), LONGEST_PAUSE),
            },
            status => {
                let pause = match status.as_u16() / 100 {
                    // The registrar does not know the subscription: start a new one at once.
                    _ if status == StatusCode::NO_TRANSACTION && self.dialog.is_some() => {
                        FIRST_PAUSE
                    }
                    5 => self.growing(),
                    _ => LONGEST_PAUSE,
                };
                self.fail(now, SubscriptionFault::Refused(status), pause);
            }
        }
    }

    /// Records that the latest request got no answer.
    pub fn handle_failure(&mut self, now: Instant) {
        if matches!(self.state, State::Asking(_)) {
            let pause = self.growing();
            self.fail(now, SubscriptionFault::NoAnswer, pause);
        }
    }

    /// Whether a received request belongs to this subscription. A NOTIFY may arrive before the
    /// response to its SUBSCRIBE (RFC 6665 §4.1.2.4).
    #[must_use]
    pub fn is_of(&self, essentials: &Essentials) -> bool {
        match &self.dialog {
            Some(dialog) => dialog.is_of(essentials),
            None => {
                essentials.call_id == self.config.call_id
                    && essentials.to.tag() == Some(&self.config.tag)
            }
        }
    }

    /// Handles a NOTIFY and returns its response.
    pub fn handle_notify(&mut self, now: Instant, request: &Request) -> Response {
        let answer = |status| Response::new(request, status, None);
        let package = request.headers.event().ok().flatten();
        if request.method != Method::Notify || package.is_none_or(|event| event.package != PACKAGE)
        {
            return answer(StatusCode::BAD_EVENT);
        }
        let Ok(Some(state)) = request.headers.subscription_state() else {
            return answer(StatusCode::BAD_REQUEST);
        };
        if let Some(Err(fault)) = self
            .dialog
            .as_mut()
            .map(|dialog| dialog.handle_request(request))
        {
            return answer(fault.status());
        }
        if !request.body.is_empty() {
            let Ok(info) = RegInfo::parse(&request.body) else {
                return answer(StatusCode::BAD_REQUEST);
            };
            match self.watched.handle(&info) {
                Ok(true) => self.events.push_back(SubscriptionEvent::Changed),
                Ok(false) => {}
                // A new SUBSCRIBE makes the registrar send full state.
                Err(_) if matches!(self.state, State::Due(_)) => self.state = State::Due(now),
                Err(_) => {}
            }
        }
        if state.state == "terminated" {
            let pause = self.growing();
            self.fail(now, SubscriptionFault::Ended, pause);
        }
        answer(StatusCode::OK)
    }

    fn first(&mut self, via: &Via) -> Request {
        let config = &self.config;
        let method = Method::Subscribe;
        let mut request = Request::new(method.clone(), config.remote.uri.clone());
        let headers = &mut request.headers;
        let mut from = config.local.clone();
        from.params.set("tag", &config.tag);
        self.number += 1;
        let number = self.number;
        headers.push(HeaderName::Via, via);
        headers.push(HeaderName::MaxForwards, MaxForwards(70));
        headers.push(HeaderName::From, from);
        headers.push(HeaderName::To, &config.remote);
        headers.push(HeaderName::CallId, &config.call_id);
        headers.push(HeaderName::CSeq, CSeq { number, method });
        request
    }

    fn accepted(&mut self, now: Instant, request: &Request, response: &Response) {
        if let Some(answerer) = &mut self.answerer {
            answerer.handle_success();
        }
        if self.dialog.is_none() {
            match Dialog::of_client(request, response) {
                Ok(dialog) => self.dialog = Some(dialog),
                Err(_) => return self.fail(now, SubscriptionFault::Answer, LONGEST_PAUSE),
            }
        }
        self.failures = 0;
        let granted = response.headers.expires().ok().flatten();
        let granted = granted.map_or(self.config.lifetime, Seconds::duration);
        let granted = granted.clamp(SHORTEST, self.config.lifetime.max(SHORTEST));
        self.state = State::Due(now + granted * 4 / 5);
    }

    fn prove(&mut self, response: &Response) -> Result<(), ChallengeFault> {
        let challenges: Vec<_> = response
            .headers
            .raw(&HeaderName::WwwAuthenticate)
            .filter_map(|value| Challenge::parse(value).ok())
            .collect();
        let answerer = self.answerer.as_mut().ok_or(ChallengeFault::NoneFits)?;
        answerer.handle_challenges(&challenges)
    }

    /// Records the loss of the subscription: the next attempt starts a new one.
    fn fail(&mut self, now: Instant, fault: SubscriptionFault, pause: Duration) {
        if let Some(dialog) = self.dialog.take() {
            self.number = self.number.max(dialog.local_number());
        }
        self.watched.restart();
        self.failures = self.failures.saturating_add(1);
        let next = now + pause;
        self.state = State::Due(next);
        self.events
            .push_back(SubscriptionEvent::Failed { fault, next });
    }

    fn growing(&self) -> Duration {
        (FIRST_PAUSE * 2_u32.saturating_pow(self.failures.min(10))).min(LONGEST_PAUSE)
    }
}

const FIRST_PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// Minimum pause, in case a registrar grants next to nothing.
const SHORTEST: Duration = Duration::from_secs(10);
