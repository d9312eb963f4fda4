//! Handling of responses to REGISTER.

use std::time::Duration;

use hawser_types::Instant;

use super::{CareOf, Registration, RegistrationEvent, RegistrationFault, State};
use crate::digest::Challenge;
use crate::fields::Contacts;
use crate::message::{HeaderFault, HeaderName, Response, StatusCode};

impl Registration {
    /// Handles a response to the latest request. A provisional one changes nothing.
    pub fn handle_response(&mut self, now: Instant, response: &Response) {
        if response.status.is_provisional() {
            return;
        }
        let Some((sent, is_old)) = self.take_asked() else {
            return;
        };
        let outcome = match response.status {
            status if status.is_success() => self.accept(now, response, &sent),
            StatusCode::UNAUTHORIZED | StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
                self.prove(response).map(|()| now)
            }
            StatusCode::INTERVAL_TOO_BRIEF => self.lengthen(response).map(|()| now),
            status => Err(RegistrationFault::Refused {
                status,
                reason: response.reason().to_owned(),
            }),
        };
        let asked = response.headers.raw(&HeaderName::RetryAfter).next();
        let asked = asked.and_then(retry_after);
        self.settle(now, outcome, is_old, asked);
    }

    /// Records that the latest request got no answer.
    pub fn handle_failure(&mut self, now: Instant) {
        if let Some((_, is_old)) = self.take_asked() {
            self.settle(now, Err(RegistrationFault::NoAnswer), is_old, None);
        }
    }

    fn take_asked(&mut self) -> Option<(Vec<CareOf>, bool)> {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Asking { sent, is_old } => Some((sent, is_old)),
            other => {
                self.state = other;
                None
            }
        }
    }

    /// Schedules the next request.
    fn settle(
        &mut self,
        now: Instant,
        outcome: Result<Instant, RegistrationFault>,
        is_old: bool,
        asked: Option<Duration>,
    ) {
        let next = match outcome {
            Ok(next) => next,
            Err(fault) => {
                let pause = self.pause(&fault).max(asked.unwrap_or_default());
                self.failures = self.failures.saturating_add(1);
                let next = now + pause;
                self.events
                    .push_back(RegistrationEvent::Failed { fault, next });
                next
            }
        };
        let is_done = self.wanted.is_empty() && self.known.is_empty();
        self.state = if is_done {
            State::Idle
        } else if is_old {
            State::Due(now)
        } else {
            State::Due(next)
        };
    }

    /// Returns the pause after a failure: growing, or long if another attempt would change nothing.
    fn pause(&self, fault: &RegistrationFault) -> Duration {
        match fault {
            RegistrationFault::NoAnswer | RegistrationFault::NotListed => self.growing(),
            RegistrationFault::Refused { status, .. } if status.as_u16() / 100 == 5 => {
                self.growing()
            }
            _ => LONGEST_PAUSE,
        }
    }

    fn growing(&self) -> Duration {
        (FIRST_PAUSE * 2_u32.saturating_pow(self.failures.min(10))).min(LONGEST_PAUSE)
    }

    /// Accepts a 2xx and returns the time of the refresh.
    fn accept(
        &mut self,
        now: Instant,
        response: &Response,
        sent: &[CareOf],
    ) -> Result<Instant, RegistrationFault> {
        if let Some(answerer) = &mut self.answerer {
            answerer.handle_success();
        }
        let bindings = match response.headers.contacts()? {
            Contacts::List(list) => list,
            Contacts::All => return Err(RegistrationFault::NotListed),
        };
        let expires = response
            .headers
            .expires()?
            .map(|seconds| seconds.duration());
        self.known = sent.iter().map(|care_of| care_of.uri.clone()).collect();
        if sent.is_empty() {
            self.failures = 0;
            self.events.push_back(RegistrationEvent::Removed);
            return Ok(now);
        }
        let mut granted = self.config.lifetime;
        for care_of in sent {
            let found = bindings.iter().find(|binding| {
                let listed = binding.uri.as_sip();
                listed.is_some_and(|listed| listed.is_equivalent(&care_of.uri))
            });
            let binding = found.ok_or(RegistrationFault::NotListed)?;
            let own = binding.expires().map_err(|fault| HeaderFault::Syntax {
                name: HeaderName::Contact,
                fault,
            })?;
            let own = own.map(|seconds| seconds.duration()).or(expires);
            granted = granted.min(own.unwrap_or(granted));
        }
        self.failures = 0;
        let until = now + granted;
        self.events
            .push_back(RegistrationEvent::Registered { until, bindings });
        Ok(now + refresh_after(granted))
    }

    fn prove(&mut self, response: &Response) -> Result<(), RegistrationFault> {
        let name = match response.status {
            StatusCode::UNAUTHORIZED => HeaderName::WwwAuthenticate,
            _ => HeaderName::ProxyAuthenticate,
        };
        let challenges: Vec<_> = response
            .headers
            .raw(&name)
            .filter_map(|value| Challenge::parse(value).ok())
            .collect();
        let answerer = self
            .answerer
            .as_mut()
            .ok_or(RegistrationFault::NoPassword)?;
        Ok(answerer.handle_challenges(&challenges)?)
    }

    /// Raises the lifetime to the registrar's minimum, if that is longer.
    fn lengthen(&mut self, response: &Response) -> Result<(), RegistrationFault> {
        let least = response
            .headers
            .min_expires()?
            .map(|least| least.duration());
        let longer =
            least.filter(|least| *least > self.config.lifetime && *least <= LONGEST_LIFETIME);
        let refused = || RegistrationFault::Refused {
            status: response.status,
            reason: response.reason().to_owned(),
        };
        self.config.lifetime = longer.ok_or_else(refused)?;
        Ok(())
    }
}

/// Leaves a fifth of the time, at least 35 s but at most half of it, for the refresh to fail and be
/// repeated. A minimum keeps a registrar that grants next to nothing from being asked all the time.
fn refresh_after(granted: Duration) -> Duration {
    let margin = (granted / 5).max(Duration::from_secs(35)).min(granted / 2);
    (granted - margin).max(SHORTEST_REFRESH)
}

/// Returns the seconds of Retry-After (RFC 3261 §20.33), up to a bound.
fn retry_after(value: &str) -> Option<Duration> {
    let digits = value.split(|c: char| !c.is_ascii_digit()).next()?;
    let seconds: u64 = digits.parse().ok()?;
    Some(Duration::from_secs(seconds).min(LONGEST_PAUSE))
}

const FIRST_PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
const SHORTEST_REFRESH: Duration = Duration::from_secs(5);
const LONGEST_LIFETIME: Duration = Duration::from_secs(86_400);
