//! One end of a session: `hawser-sip` with a socket and a clock. All of its messages go to
//! Kamailio.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant as Clock};

use bytes::Bytes;
use hawser_sip::fields::{CallId, NameAddr, Transport, Via};
use hawser_sip::message::{Datagram, Limits, Method, Request, Response, StatusCode, read_datagram};
use hawser_sip::session::{Call, Incoming, Outgoing, Own, Session, SessionEvent};
use hawser_sip::transaction::{Config, Event, Flow, TransactionId, Transactions};
use hawser_types::Instant;

use super::server::Kamailio;

const FLOW: Flow = Flow {
    number: 1,
    is_reliable: false,
};

pub(crate) struct Peer {
    pub(crate) session: Option<Session>,
    pub(crate) heard: Vec<SessionEvent>,
    /// Descriptions in requests of the other end.
    pub(crate) offers: Vec<Bytes>,
    socket: UdpSocket,
    transactions: Transactions,
    asked: BTreeMap<TransactionId, Method>,
    called: Option<TransactionId>,
    started: Clock,
    name: &'static str,
    branches: u32,
}

impl Peer {
    pub(crate) fn new(kamailio: &Kamailio, name: &'static str) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.connect(kamailio.address).unwrap();
        let pause = Duration::from_millis(10);
        socket.set_read_timeout(Some(pause)).unwrap();
        Self {
            session: None,
            heard: Vec::new(),
            offers: Vec::new(),
            socket,
            transactions: Transactions::new(Config::new(name)),
            asked: BTreeMap::new(),
            called: None,
            started: Clock::now(),
            name,
            branches: 0,
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.socket.local_addr().unwrap()
    }

    /// Returns this end's own description, in the version with this number.
    pub(crate) fn own(&self, version: u32) -> Own {
        Own {
            contact: format!("sip:{}@{}", self.name, self.address())
                .parse()
                .unwrap(),
            description: format!("{} {version}", self.name).into(),
        }
    }

    /// Calls `remote`.
    pub(crate) fn call(&mut self, remote: &str) {
        let local = format!("sip:{}@visitor.example", self.name);
        let call = Call {
            local: NameAddr::new(local.parse().unwrap()),
            remote: NameAddr::new(remote.parse().unwrap()),
            target: remote.parse().unwrap(),
            call_id: CallId::new(&format!("{}@{}", std::process::id(), self.address().port()))
                .unwrap(),
            tag: self.name.to_owned(),
        };
        self.session = Some(Session::call(call, self.own(1)));
    }

    /// Runs due timers, and waits briefly for a message.
    pub(crate) fn step(&mut self) {
        let now = self.now();
        self.send(now);
        let mut buffer = [0; 65536];
        if let Ok(length) = self.socket.recv(&mut buffer) {
            let bytes = Bytes::copy_from_slice(&buffer[..length]);
            let read = read_datagram(&bytes, &Limits::default()).unwrap();
            if let Datagram::Message { message, .. } = read {
                self.transactions.handle_message(now, FLOW, message);
            }
        }
        self.transactions.handle_timeout(now);
        while let Some(event) = self.transactions.poll_event() {
            self.react(now, event);
        }
        self.send(now);
    }

    fn react(&mut self, now: Instant, event: Event) {
        match event {
            Event::Request { id, request, .. } => {
                if let Some(answer) = self.answer(now, id, &request) {
                    self.transactions.respond(now, id, &answer).unwrap();
                }
            }
            Event::Ack { request, .. } => {
                self.session.as_mut().unwrap().handle_request(&request);
            }
            Event::Response { response, .. } => {
                let session = self.session.as_mut().unwrap();
                session.handle_response(now, &response);
            }
            Event::Failed { id, reason } => panic!("{:?}: {reason}", self.asked[&id]),
            _ => {}
        }
    }

    fn answer(&mut self, now: Instant, id: TransactionId, request: &Request) -> Option<Response> {
        let own = self.own(1);
        let Some(session) = &mut self.session else {
            self.called = Some(id);
            self.offers.push(request.body.clone());
            let (session, answer) = Session::answer(now, request, self.name, own).unwrap();
            self.session = Some(session);
            return Some(answer);
        };
        match session.handle_request(request) {
            Incoming::Answer(answer) => Some(answer),
            Incoming::Offer(offer) => {
                self.offers.push(offer);
                Some(session.accept(request))
            }
            Incoming::Nothing => Some(Response::new(request, StatusCode::OK, None)),
        }
    }

    fn send(&mut self, now: Instant) {
        loop {
            self.branches += 1;
            let own = self.address();
            let mut via = Via::new(Transport::Udp, own.ip().into(), Some(own.port()));
            let branch = format!("z9hG4bK{}{}", self.name, self.branches);
            via.params.set("branch", &branch);
            via.params.set_flag("rport");
            let Some(session) = &mut self.session else {
                break;
            };
            self.heard
                .extend(std::iter::from_fn(|| session.poll_event()));
            match session.poll_outgoing(now, &via) {
                None => break,
                Some(Outgoing::Request(request)) => {
                    let method = request.method.clone();
                    let id = self.transactions.send(now, FLOW, request).unwrap();
                    self.asked.insert(id, method);
                }
                Some(Outgoing::Ack(ack)) => {
                    self.socket.send(&ack.to_bytes()).unwrap();
                }
                Some(Outgoing::Again(answer)) => {
                    let id = self.called.unwrap();
                    self.transactions.respond(now, id, &answer).unwrap();
                }
            }
        }
        while let Some(transmit) = self.transactions.poll_transmit() {
            self.socket.send(&transmit.bytes).unwrap();
        }
    }

    fn now(&self) -> Instant {
        let nanos = self.started.elapsed().as_nanos();
        Instant::from_nanos(1_000_000_000 + u64::try_from(nanos).unwrap())
    }
}
