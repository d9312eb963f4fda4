//! Two ends and a network between them that loses chosen messages.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use hawser_types::Instant;

use super::super::*;
use crate::fields::{Transport, Via};
use crate::message::{Datagram, Limits, Method, Request, Response, StatusCode, read_datagram};
use crate::transaction::{Config, Event, Flow, TransactionId, Transactions};

const FLOW: Flow = Flow {
    number: 1,
    is_reliable: false,
};
pub(super) const DELAY: Duration = Duration::from_millis(20);

pub(super) fn own(name: &str, place: u32) -> Own {
    Own {
        contact: format!("sip:{name}@host{place}.example").parse().unwrap(),
        description: format!("{name} at {place}").into(),
    }
}

pub(super) struct End {
    pub(super) transactions: Transactions,
    pub(super) session: Option<Session>,
    pub(super) heard: Vec<SessionEvent>,
    /// Descriptions of the far end that came in requests.
    pub(super) offers: Vec<String>,
    pub(super) refuses: bool,
    pub(super) is_ringing: bool,
    /// Whether the directory reports this end as unreachable, and how often it has done so.
    pub(super) is_away: bool,
    pub(super) turned_away: usize,
    pub(super) was_cancelled: bool,
    /// The INVITE that this end sent.
    pub(super) invite: Option<Request>,
    name: &'static str,
    branches: u32,
    asked: BTreeMap<TransactionId, Method>,
    called: Option<(TransactionId, Request)>,
    /// Messages that this end sent outside of its transactions.
    acks: Vec<Bytes>,
    inbox: VecDeque<(Instant, Bytes)>,
}

pub(super) struct Pair {
    pub(super) now: Instant,
    pub(super) alice: End,
    pub(super) bob: End,
    lost: VecDeque<bool>,
}

impl End {
    fn new(name: &'static str) -> Self {
        Self {
            transactions: Transactions::new(Config::new(name)),
            session: None,
            heard: Vec::new(),
            offers: Vec::new(),
            refuses: false,
            is_ringing: false,
            is_away: false,
            turned_away: 0,
            was_cancelled: false,
            invite: None,
            name,
            branches: 0,
            asked: BTreeMap::new(),
            called: None,
            acks: Vec::new(),
            inbox: VecDeque::new(),
        }
    }

    /// The session; an end that was never called has one that is over.
    pub(super) fn session(&mut self) -> &mut Session {
        let name = self.name;
        self.session.get_or_insert_with(|| {
            let mut session = Session::call(call(), own(name, 0));
            session.hang_up();
            session
        })
    }

    /// Sends the session's messages and collects its events.
    pub(super) fn poll(&mut self, now: Instant) {
        loop {
            let mut via = Via::new(
                Transport::Udp,
                format!("{}.example", self.name).parse().unwrap(),
                None,
            );
            self.branches += 1;
            via.params
                .set("branch", &format!("z9hG4bK{}{}", self.name, self.branches));
            let Some(session) = &mut self.session else {
                return;
            };
            let Some(outgoing) = session.poll_outgoing(now, &via) else {
                break;
            };
            match outgoing {
                Outgoing::Request(request) => {
                    let method = request.method.clone();
                    if method == Method::Invite {
                        self.invite = Some(request.clone());
                    }
                    let id = self.transactions.send(now, FLOW, request).unwrap();
                    self.asked.insert(id, method);
                }
                Outgoing::Ack(ack) => self.acks.push(ack.to_bytes()),
                Outgoing::Again(response) => {
                    let (id, _) = self.called.as_ref().unwrap();
                    self.transactions.respond(now, *id, &response).unwrap();
                }
            }
        }
        let session = self.session.as_mut().unwrap();
        self.heard
            .extend(std::iter::from_fn(|| session.poll_event()));
    }

    fn handle(&mut self, now: Instant, bytes: &Bytes) {
        let read = read_datagram(bytes, &Limits::default()).unwrap();
        let Datagram::Message { message, .. } = read else {
            panic!("it is a message");
        };
        self.transactions.handle_message(now, FLOW, message);
        self.react(now);
    }

    fn react(&mut self, now: Instant) {
        while let Some(event) = self.transactions.poll_event() {
            match event {
                Event::Request {
                    id,
                    request,
                    cancels,
                    ..
                } => {
                    self.take_request(now, id, request, cancels);
                }
                Event::Ack { request, .. } => {
                    self.session().handle_request(&request);
                }
                Event::Response { response, .. } => {
                    self.session().handle_response(now, &response);
                }
                Event::Stray { .. } | Event::Abandoned { .. } => {}
                Event::Failed { id, .. } => {
                    let method = self.asked.remove(&id).unwrap();
                    self.session().handle_failure(now, &method);
                }
            }
        }
        self.poll(now);
    }

    fn take_request(
        &mut self,
        now: Instant,
        id: TransactionId,
        request: Request,
        cancels: Option<TransactionId>,
    ) {
        let answer = match request.method {
            _ if self.is_away => {
                self.turned_away += 1;
                Response::new(&request, StatusCode::TEMPORARILY_UNAVAILABLE, None)
            }
            Method::Cancel => {
                self.was_cancelled = true;
                if let Some((invite, called)) = self.called.take().filter(|_| cancels.is_some()) {
                    let status = StatusCode::REQUEST_TERMINATED;
                    let terminated = Response::new(&called, status, Some(self.name));
                    let _ = self.transactions.respond(now, invite, &terminated);
                }
                Response::new(&request, StatusCode::OK, Some(self.name))
            }
            Method::Invite if self.session.is_none() => {
                self.called = Some((id, request.clone()));
                self.take_call(now, &request)
            }
            _ => match self.session().handle_request(&request) {
                Incoming::Answer(answer) => answer,
                Incoming::Nothing => return,
                Incoming::Offer(_) if self.refuses => self.session().refuse(&request),
                Incoming::Offer(offer) => {
                    self.offers.push(String::from_utf8(offer.to_vec()).unwrap());
                    self.session().accept(&request)
                }
            },
        };
        self.transactions.respond(now, id, &answer).unwrap();
    }

    fn take_call(&mut self, now: Instant, invite: &Request) -> Response {
        if self.is_ringing {
            return Response::new(invite, StatusCode::RINGING, Some(self.name));
        }
        if self.refuses {
            let status = StatusCode::NOT_ACCEPTABLE_HERE;
            return Response::new(invite, status, Some(self.name));
        }
        self.offers
            .push(String::from_utf8(invite.body.to_vec()).unwrap());
        let (session, response) =
            Session::answer(now, invite, self.name, own(self.name, 1)).unwrap();
        self.session = Some(session);
        response
    }

    fn due(&self) -> Option<Instant> {
        let session = self.session.as_ref().and_then(Session::poll_timeout);
        session
            .into_iter()
            .chain(self.transactions.poll_timeout())
            .min()
    }

    /// Messages that this end sent since.
    fn sent(&mut self) -> Vec<Bytes> {
        let acks = std::mem::take(&mut self.acks);
        let others = std::iter::from_fn(|| self.transactions.poll_transmit());
        others.map(|transmit| transmit.bytes).chain(acks).collect()
    }
}

impl Pair {
    /// Alice is about to call Bob; these messages are lost.
    pub(super) fn new(lost: &[bool]) -> Self {
        let mut alice = End::new("alice");
        alice.session = Some(Session::call(call(), own("alice", 1)));
        Self {
            now: Instant::from_nanos(1_000_000_000),
            alice,
            bob: End::new("bob"),
            lost: lost.iter().copied().collect(),
        }
    }

    /// Handles everything that is due now, then advances to the next timer. Returns whether there
    /// is one.
    pub(super) fn step(&mut self) -> bool {
        self.alice.poll(self.now);
        self.bob.poll(self.now);
        for is_up in [true, false] {
            let (from, to) = if is_up {
                (&mut self.alice, &mut self.bob)
            } else {
                (&mut self.bob, &mut self.alice)
            };
            for bytes in from.sent() {
                if !self.lost.pop_front().unwrap_or(false) {
                    to.inbox.push_back((self.now + DELAY, bytes));
                }
            }
        }
        let ends = [&self.alice, &self.bob];
        let arrivals = ends
            .iter()
            .flat_map(|end| end.inbox.iter().map(|(at, _)| *at));
        let due = arrivals
            .chain(ends.iter().filter_map(|end| end.due()))
            .min();
        let Some(due) = due else {
            return false;
        };
        self.now = due.max(self.now);
        for end in [&mut self.alice, &mut self.bob] {
            while let Some((_, bytes)) = end.inbox.pop_front_if(|(at, _)| *at <= self.now) {
                end.handle(self.now, &bytes);
            }
            end.transactions.handle_timeout(self.now);
            end.react(self.now);
        }
        true
    }

    pub(super) fn run(&mut self) {
        for _ in 0..2000 {
            if !self.step() {
                return;
            }
        }
        panic!("it does not end");
    }

    pub(super) fn run_until(&mut self, condition: impl Fn(&Self) -> bool) {
        while !condition(self) {
            assert!(self.step(), "it does not come to that");
        }
    }

    /// Loses these of the following messages.
    pub(super) fn lose(&mut self, lost: &[bool]) {
        self.lost.extend(lost);
    }
}

fn call() -> Call {
    let name = |text: &str| NameAddr::new(text.parse().unwrap());
    Call {
        local: name("sip:alice@example.org"),
        remote: name("sip:bob@example.org"),
        target: "sip:bob@example.org".parse().unwrap(),
        call_id: CallId::new("1@alice").unwrap(),
        tag: "a".to_owned(),
    }
}
