//! Keeps this host registered (RFC 3261 §10.2): the binding update of MMS §II.B.

mod outcome;

use std::collections::VecDeque;
use std::time::Duration;

use hawser_types::Instant;
use thiserror::Error;

use crate::digest::{Answerer, ChallengeFault};
use crate::fields::{CSeq, CallId, MaxForwards, NameAddr, Q, Seconds, Via};
use crate::message::{HeaderFault, HeaderName, Method, Request, StatusCode};
use crate::uri::{SipUri, Uri};

/// A care-of address and its share of the traffic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CareOf {
    /// The address, which identifies the binding and must not change while that exists.
    pub uri: SipUri,
    /// Its share.
    pub q: Q,
}

/// Parameters of a registration.
#[derive(Clone, Debug)]
pub struct RegistrationConfig {
    /// The registrar, such as `sip:example.org`.
    pub registrar: SipUri,
    /// The address of record, such as `sip:alice@example.org`.
    pub address: SipUri,
    /// Call-ID that was not used before; the same one for as long as the host is up.
    pub call_id: CallId,
    /// The tag of From: a token that was not used before.
    pub tag: String,
    /// Requested lifetime of a registration. It is refreshed before it expires.
    pub lifetime: Duration,
    /// Instance of the host and number of its link (RFC 5626), if each link has a registration of
    /// its own: behind NAT, or with a registrar that takes one contact per host only.
    pub outbound: Option<(String, u32)>,
}

/// Outcome of a registration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegistrationEvent {
    /// The registrar confirmed the registration and listed all bindings of the address of record.
    Registered {
        /// When the registration expires without a refresh.
        until: Instant,
        /// The bindings, those of other hosts included.
        bindings: Vec<NameAddr>,
    },
    /// The registrar has removed all bindings registered here.
    Removed,
    /// The registration failed. The next attempt follows automatically.
    Failed {
        /// The reason.
        fault: RegistrationFault,
        /// When the next attempt is made.
        next: Instant,
    },
}

/// Why a registration failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RegistrationFault {
    /// The registrar did not answer.
    #[error("the registrar does not answer")]
    NoAnswer,
    /// The registrar refused.
    #[error("the registrar answers {status} {reason}")]
    Refused {
        /// The answer's status.
        status: StatusCode,
        /// The answer's words.
        reason: String,
    },
    /// The registrar sent a challenge that can't be answered.
    #[error("the registrar asks for a proof: {0}")]
    Challenge(#[from] ChallengeFault),
    /// The registrar sent a challenge, and no password is configured.
    #[error("the registrar asks for a password, and there is none")]
    NoPassword,
    /// The registrar's answer can't be read.
    #[error("the registrar's answer: {0}")]
    Answer(#[from] HeaderFault),
    /// The registrar's answer does not list the registered contacts.
    #[error("the registrar does not list what was registered")]
    NotListed,
}

/// Keeps care-of addresses registered, and updates the registration when they change.
///
/// Call [`Registration::poll_request`] at [`Registration::poll_timeout`], send what it returns, and
/// pass the final answer back. At most one request is in progress.
#[derive(Debug)]
pub struct Registration {
    config: RegistrationConfig,
    answerer: Option<Answerer>,
    wanted: Vec<CareOf>,
    /// Addresses that may be bound at the registrar.
    known: Vec<SipUri>,
    cseq: u32,
    state: State,
    /// Consecutive failures.
    failures: u32,
    events: VecDeque<RegistrationEvent>,
}

#[derive(Debug)]
enum State {
    /// Nothing is registered or to be registered.
    Idle,
    /// The next request is due at this time.
    Due(Instant),
    /// A request is in progress. `is_old`: the addresses changed after it was sent.
    Asking { sent: Vec<CareOf>, is_old: bool },
}

impl Registration {
    /// Creates an empty registration.
    #[must_use]
    pub fn new(config: RegistrationConfig, answerer: Option<Answerer>) -> Self {
        Self {
            config,
            answerer,
            wanted: Vec::new(),
            known: Vec::new(),
            cseq: 0,
            state: State::Idle,
            failures: 0,
            events: VecDeque::new(),
        }
    }

    /// Sets the care-of addresses. The registrar is told at once, of removed addresses as well; an
    /// empty list removes the registration.
    pub fn set_contacts(&mut self, now: Instant, contacts: Vec<CareOf>) {
        if contacts == self.wanted {
            return;
        }
        self.wanted = contacts;
        self.failures = 0;
        match &mut self.state {
            State::Asking { is_old, .. } => *is_old = true,
            State::Idle | State::Due(_) => self.state = State::Due(now),
        }
    }

    /// Returns the time of the next call to [`Registration::poll_request`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        match self.state {
            State::Due(at) => Some(at),
            State::Idle | State::Asking { .. } => None,
        }
    }

    /// Returns the request to send now, if one is due. `via` has a new branch; `cnonce` is a token
    /// that was not used before.
    pub fn poll_request(&mut self, now: Instant, via: &Via, cnonce: &str) -> Option<Request> {
        if self.poll_timeout()? > now {
            return None;
        }
        let contacts = self.contacts();
        if contacts.is_empty() {
            self.state = State::Idle;
            return None;
        }
        self.cseq += 1;
        let sent = self.wanted.clone();
        // The registrar may have received a request without answering it.
        for care_of in &sent {
            let mut known = self.known.iter();
            if !known.any(|known| known.is_equivalent(&care_of.uri)) {
                self.known.push(care_of.uri.clone());
            }
        }
        // The oldest ones expire at the registrar.
        let excess = self.known.len().saturating_sub(MAX_KNOWN.max(sent.len()));
        self.known.drain(..excess);
        self.state = State::Asking {
            sent,
            is_old: false,
        };
        Some(self.request(via, cnonce, &contacts))
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<RegistrationEvent> {
        self.events.pop_front()
    }

    /// Returns all wanted contacts, and known ones to remove with `expires=0`.
    fn contacts(&self) -> Vec<NameAddr> {
        let is_wanted = |uri: &SipUri| self.wanted.iter().any(|w| w.uri.is_equivalent(uri));
        let gone = self.known.iter().filter(|uri| !is_wanted(uri));
        let wanted = self.wanted.iter().map(|care_of| {
            let mut contact = self.contact(&care_of.uri);
            contact.params.set("q", &care_of.q.to_string());
            contact
        });
        // A new address under the same link number replaces the old one at the registrar.
        let is_replaced = self.config.outbound.is_some() && !self.wanted.is_empty();
        let gone = gone.filter(|_| !is_replaced).map(|uri| {
            let mut contact = self.contact(uri);
            contact.params.set("expires", "0");
            contact
        });
        wanted.chain(gone).collect()
    }

    fn contact(&self, uri: &SipUri) -> NameAddr {
        let mut contact = NameAddr::new(uri.clone().into());
        if let Some((instance, number)) = &self.config.outbound {
            contact.params.set_quoted("+sip.instance", instance);
            contact.params.set("reg-id", &number.to_string());
        }
        contact
    }

    fn request(&mut self, via: &Via, cnonce: &str, contacts: &[NameAddr]) -> Request {
        let config = &self.config;
        let method = Method::Register;
        let target = Uri::from(config.registrar.clone());
        let mut request = Request::new(method.clone(), target.clone());
        let headers = &mut request.headers;
        let address = NameAddr::new(config.address.clone().into());
        let mut from = address.clone();
        from.params.set("tag", &config.tag);
        headers.push(HeaderName::Via, via);
        headers.push(HeaderName::MaxForwards, MaxForwards(70));
        headers.push(HeaderName::From, from);
        headers.push(HeaderName::To, address);
        headers.push(HeaderName::CallId, &config.call_id);
        let number = self.cseq;
        headers.push(HeaderName::CSeq, CSeq { number, method });
        for contact in contacts {
            headers.push(HeaderName::Contact, contact);
        }
        let seconds = u32::try_from(config.lifetime.as_secs()).unwrap_or(u32::MAX);
        headers.push(HeaderName::Expires, Seconds(seconds));
        headers.push(HeaderName::Supported, "path, outbound");
        let target = target.to_string();
        let proof = self
            .answerer
            .as_mut()
            .and_then(|answerer| answerer.credentials(&Method::Register, &target, cnonce));
        if let Some(proof) = proof {
            headers.push(HeaderName::Authorization, proof);
        }
        request
    }
}

/// Addresses that are remembered because the registrar may have them.
const MAX_KNOWN: usize = 16;
