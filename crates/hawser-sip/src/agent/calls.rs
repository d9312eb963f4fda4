//! Sessions with other hosts, which call each other by name and exchange their addresses.

mod descriptions;
mod giving_way;
mod incoming;
#[cfg(test)]
mod tests;
mod trust;

use std::collections::{BTreeMap, VecDeque};

use hawser_types::Instant;
use thiserror::Error;

use super::announcer::{Announcer, Passed};
use crate::fields::{CallId, NameAddr};
use crate::message::{Method, Response, StatusCode};
use crate::sdp::Candidate;
use crate::session::{Call as NewCall, EndReason, Outgoing, Session, SessionEvent};
use crate::transaction::TransactionId;
use crate::uri::{SipUri, Uri};
use descriptions::Descriptions;
use giving_way::GivingWay;
pub use trust::{Claim, Doubt, Keys, Verdict};

/// Event of a session with a host. Names are addresses of record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallEvent {
    /// A host proved its identity by a signature and sent its addresses.
    Reached {
        /// Its name.
        name: String,
        /// Addresses at which it can perhaps be reached, the preferred ones first.
        candidates: Vec<Candidate>,
        /// Whether the host has just called this one.
        has_called: bool,
    },
    /// The session is over, or was not established.
    Ended {
        /// The name of the other host.
        name: String,
        /// The reason, unless one of the two hosts ended it in order.
        problem: Option<CallProblem>,
    },
}

/// Why there is no session with a host.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CallProblem {
    /// The peer does not know this host, or knows it by another key. The answer does not say which,
    /// because an unknown caller must not learn which hosts are known.
    #[error(
        "it does not know this host, or knows it by another key: there, `hawser peers add` makes \
         it known"
    )]
    NotKnownThere,
    /// The directory does not know the peer's addresses.
    #[error("the directory does not know where it is")]
    NotRegistered,
    /// The peer or the directory refused with another status.
    #[error("the answer is {0}")]
    Refused(StatusCode),
    /// Neither the peer nor the directory answers.
    #[error("neither it nor the directory answers")]
    NoAnswer,
    /// The peer's description could not be verified.
    #[error(transparent)]
    Doubt(#[from] Doubt),
    /// The session came to an end for another reason.
    #[error("{0}")]
    Other(EndReason),
}

/// All sessions of this host.
pub(super) struct Calls {
    name: SipUri,
    /// The name as an address of record.
    address: String,
    descriptions: Descriptions,
    calls: BTreeMap<u64, Call>,
    /// Requests in progress, each with the number of its session and its method.
    asked: BTreeMap<TransactionId, (u64, Method)>,
    giving_way: GivingWay,
    next: u64,
    events: VecDeque<CallEvent>,
}

struct Call {
    /// The other host's address of record.
    peer: String,
    call_id: CallId,
    session: Session,
    /// Transaction of the received INVITE.
    invited: Option<TransactionId>,
    /// Whether another session with that host replaced this one.
    is_replaced: bool,
    /// Failed verification that ended the session; the end is reported with it.
    doubt: Option<Doubt>,
}

impl Calls {
    /// Creates an empty table. `number` is higher with each start of this host.
    pub(super) fn new(name: SipUri, keys: Box<dyn Keys>, number: u64) -> Self {
        let address = name.address_of_record().unwrap_or_default();
        Self {
            descriptions: Descriptions::new(&address, keys, number),
            name,
            address,
            calls: BTreeMap::new(),
            asked: BTreeMap::new(),
            giving_way: GivingWay::default(),
            next: 0,
            events: VecDeque::new(),
        }
    }

    /// Sets the addresses of this host, and sends them to each host in a session.
    pub(super) fn set_candidates(&mut self, candidates: Vec<Candidate>) {
        if !self.descriptions.set_candidates(candidates) {
            return;
        }
        for call in self.calls.values_mut().filter(|call| !call.is_replaced) {
            let own = self.descriptions.own(&self.name, &call.call_id, &call.peer);
            call.session.set_own(own);
        }
    }

    /// Calls a host even if there is a session with it, because that session is useless: for
    /// example, the other host restarted.
    pub(super) fn call_anew(&mut self, peer: &SipUri, announcer: &mut Announcer) {
        let address = peer.address_of_record().unwrap_or_default();
        // A call that is still being opened sends the same as a new one.
        for call in self
            .of(&address)
            .filter(|call| call.session.dialog().is_some())
        {
            call.is_replaced = true;
            call.session.hang_up();
        }
        self.call(peer, announcer);
    }

    /// Calls a host, unless there is a session with it, or one is being opened.
    pub(super) fn call(&mut self, peer: &SipUri, announcer: &mut Announcer) {
        let Some(address) = peer.address_of_record() else {
            return;
        };
        if self.current(&address).is_some() || self.calls.len() >= MAX_CALLS {
            return;
        }
        let Ok(call_id) = CallId::new(&announcer.word()) else {
            return;
        };
        self.descriptions.renew();
        let own = self.descriptions.own(&self.name, &call_id, &address);
        let named = |uri: &SipUri| NameAddr::new(Uri::from(uri.clone()));
        let call = NewCall {
            local: named(&self.name),
            remote: named(peer),
            target: peer.clone().into(),
            call_id: call_id.clone(),
            tag: announcer.word(),
        };
        let session = Session::call(call, own);
        self.insert(address, call_id, session, None);
    }

    /// Ends the session with a host.
    pub(super) fn hang_up(&mut self, peer: &SipUri) {
        let address = peer.address_of_record().unwrap_or_default();
        for call in self.of(&address) {
            call.session.hang_up();
        }
    }

    /// Ends all sessions.
    pub(super) fn close(&mut self) {
        for call in self.calls.values_mut() {
            call.session.hang_up();
        }
    }

    pub(super) fn poll_event(&mut self) -> Option<CallEvent> {
        self.events.pop_front()
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let calls = self.calls.values();
        let calls = calls.filter_map(|call| call.session.poll_timeout());
        calls.chain(self.giving_way.poll_timeout()).min()
    }

    /// Number of sessions that were not replaced.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        let calls = self.calls.values();
        calls.filter(|call| !call.is_replaced).count()
    }

    /// Handles a message from the announcer.
    pub(super) fn handle(&mut self, now: Instant, announcer: &mut Announcer, passed: Passed) {
        match passed {
            Passed::Request {
                id,
                request,
                cancels,
            } => {
                let answer = self.handle_request(now, announcer, (id, &request), cancels);
                if let Some(answer) = answer {
                    announcer.respond(now, id, &answer);
                }
            }
            Passed::Ack(ack) => {
                if let Some(call) = self.call_of(&ack) {
                    // An ACK has no answer.
                    call.session.handle_request(&ack);
                }
            }
            Passed::Response { id, response } => self.handle_response(now, id, &response),
            Passed::Failed(id) => {
                if let Some((number, method)) = self.asked.remove(&id)
                    && let Some(call) = self.calls.get_mut(&number)
                {
                    call.session.handle_failure(now, &method);
                }
            }
        }
    }

    /// Sends pending messages of the sessions, and handles their events.
    pub(super) fn drive(&mut self, now: Instant, announcer: &mut Announcer) {
        let numbers: Vec<u64> = self.calls.keys().copied().collect();
        for number in numbers {
            self.send(now, number, announcer);
            while let Some(event) = self
                .calls
                .get_mut(&number)
                .and_then(|call| call.session.poll_event())
            {
                self.handle_event(now, number, event);
                self.send(now, number, announcer);
            }
        }
        while let Some(name) = self.giving_way.poll_late(now) {
            let problem = Some(refused(StatusCode::BUSY_HERE));
            self.events.push_back(CallEvent::Ended { name, problem });
        }
        self.calls.retain(|_, call| !call.session.is_over());
        let calls = &self.calls;
        self.asked
            .retain(|_, (number, _)| calls.contains_key(number));
    }

    fn send(&mut self, now: Instant, number: u64, announcer: &mut Announcer) {
        let Some(call) = self.calls.get_mut(&number) else {
            return;
        };
        while let Some((flow, via)) = announcer.way() {
            match call.session.poll_outgoing(now, &via) {
                Some(Outgoing::Request(request)) => {
                    let method = request.method.clone();
                    match announcer.send(now, flow, request) {
                        Some(id) => drop(self.asked.insert(id, (number, method))),
                        None => call.session.handle_failure(now, &method),
                    }
                }
                Some(Outgoing::Ack(ack)) => announcer.send_ack(flow, &ack),
                Some(Outgoing::Again(response)) => {
                    if let Some(id) = call.invited {
                        announcer.respond(now, id, &response);
                    }
                }
                None => return,
            }
        }
    }

    fn handle_response(&mut self, now: Instant, id: TransactionId, response: &Response) {
        let Some((number, method)) = self.asked.get(&id) else {
            return;
        };
        if let Some(call) = self.calls.get_mut(number) {
            call.session.handle_response(now, response);
        }
        // An INVITE may have several answers.
        if !response.status.is_provisional() && *method != Method::Invite {
            self.asked.remove(&id);
        }
    }

    fn handle_event(&mut self, now: Instant, number: u64, event: SessionEvent) {
        let Some(call) = self.calls.get_mut(&number) else {
            return;
        };
        let (is_asked, body) = match event {
            SessionEvent::Accepted(body) => (true, body),
            SessionEvent::Updated(body) => (false, body),
            SessionEvent::Ended(reason) => return self.handle_end(now, number, reason),
        };
        let name = call.peer.clone();
        match self
            .descriptions
            .check(&call.call_id, &name, &body, is_asked)
        {
            Ok(description) if !call.is_replaced => {
                self.events.push_back(CallEvent::Reached {
                    name,
                    candidates: description.candidates,
                    has_called: false,
                });
            }
            // A newer description arrived by another session or message.
            Ok(_) | Err(Doubt::Old) => {}
            // In the answer to a call, `EarlierStart` means that the peer's clock went back.
            Err(Doubt::EarlierStart) if !is_asked => {}
            Err(doubt) => {
                call.doubt = Some(doubt);
                call.session.hang_up();
            }
        }
    }

    fn handle_end(&mut self, now: Instant, number: u64, reason: EndReason) {
        let Some(call) = self.calls.get_mut(&number) else {
            return;
        };
        let is_replaced = std::mem::replace(&mut call.is_replaced, true);
        let (name, doubt) = (call.peer.clone(), call.doubt.take());
        // Of two hosts that call each other at once, one gives way.
        if is_replaced || self.current(&name).is_some() {
            return;
        }
        if reason == EndReason::Refused(StatusCode::BUSY_HERE) {
            return self.giving_way.start(now, name);
        }
        let problem = match (doubt, reason) {
            (Some(doubt), _) => Some(CallProblem::Doubt(doubt)),
            (None, EndReason::Local | EndReason::Remote) => None,
            (None, EndReason::NoAnswer) => Some(CallProblem::NoAnswer),
            (None, EndReason::Refused(status)) => Some(refused(status)),
            (None, other) => Some(CallProblem::Other(other)),
        };
        self.events.push_back(CallEvent::Ended { name, problem });
    }

    /// Returns the number of the current session with a host.
    fn current(&self, peer: &str) -> Option<u64> {
        let mut calls = self.calls.iter();
        let (number, _) = calls.find(|(_, call)| call.peer == peer && !call.is_replaced)?;
        Some(*number)
    }

    /// Returns all sessions with a host.
    fn of(&mut self, peer: &str) -> impl Iterator<Item = &mut Call> {
        self.calls
            .values_mut()
            .filter(move |call| call.peer == peer)
    }

    fn insert(
        &mut self,
        peer: String,
        call_id: CallId,
        session: Session,
        invited: Option<TransactionId>,
    ) {
        self.next += 1;
        self.giving_way.end(&peer);
        let call = Call {
            peer,
            call_id,
            session,
            invited,
            is_replaced: false,
            doubt: None,
        };
        self.calls.insert(self.next, call);
    }
}

fn refused(status: StatusCode) -> CallProblem {
    match status {
        StatusCode::DECLINE => CallProblem::NotKnownThere,
        StatusCode::TEMPORARILY_UNAVAILABLE | StatusCode::NOT_FOUND => CallProblem::NotRegistered,
        StatusCode::REQUEST_TIMEOUT => CallProblem::NoAnswer,
        status => CallProblem::Refused(status),
    }
}

impl std::fmt::Debug for Calls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Calls")
            .field("name", &self.name)
            .field("count", &self.calls.len())
            .finish_non_exhaustive()
    }
}

/// Limit of all sessions: far more than a host needs at once.
const MAX_CALLS: usize = 256;
