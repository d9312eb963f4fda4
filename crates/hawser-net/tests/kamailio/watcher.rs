//! A user who watches another one: `hawser-sip` with a socket and a clock.

use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant as Clock};

use bytes::Bytes;
use hawser_sip::digest::{Algorithm, Answerer};
use hawser_sip::fields::{CallId, NameAddr, Transport, Via};
use hawser_sip::message::{Datagram, Limits, read_datagram};
use hawser_sip::subscription::{Subscription, SubscriptionConfig, SubscriptionEvent};
use hawser_sip::transaction::{Config, Event, Flow, Transactions};
use hawser_types::Instant;

use super::server::Kamailio;

const FLOW: Flow = Flow {
    number: 1,
    is_reliable: false,
};

pub(crate) struct Watcher {
    subscription: Subscription,
    transactions: Transactions,
    socket: UdpSocket,
    started: Clock,
    branches: u32,
}

impl Watcher {
    /// Makes `alice`, who watches herself.
    pub(crate) fn new(kamailio: &Kamailio) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.connect(kamailio.address).unwrap();
        let pause = Duration::from_millis(10);
        socket.set_read_timeout(Some(pause)).unwrap();
        let own = socket.local_addr().unwrap();
        let alice = || NameAddr::new("sip:alice@example.org".parse().unwrap());
        let config = SubscriptionConfig {
            local: alice(),
            remote: alice(),
            contact: format!("sip:alice@{own}").parse().unwrap(),
            call_id: CallId::new(&format!("watch-{}", own.port())).unwrap(),
            tag: "watcher".to_owned(),
            lifetime: Duration::from_secs(600),
        };
        let answerer = Answerer::new("alice", "a", Algorithm::Sha256);
        let started = Clock::now();
        Self {
            subscription: Subscription::new(now(started), config, Some(answerer)),
            transactions: Transactions::new(Config::new("watcher")),
            socket,
            started,
            branches: 0,
        }
    }

    /// Waits until these are the contacts, the preferred ones first.
    pub(crate) fn until(&mut self, contacts: &[&str]) {
        let end = Clock::now() + Duration::from_secs(60);
        loop {
            let known = self.subscription.contacts().into_iter();
            let known: Vec<_> = known.map(|it| it.uri.to_string()).collect();
            if known == contacts {
                return;
            }
            assert!(Clock::now() < end, "{known:?} and not {contacts:?}");
            self.step();
        }
    }

    /// Waits until the subscription is confirmed.
    pub(crate) fn until_it_is_told_something(&mut self) {
        let end = Clock::now() + Duration::from_secs(60);
        let mut heard = 0;
        while heard == 0 {
            assert!(Clock::now() < end, "nothing is told");
            heard = self.step();
        }
    }

    /// Runs due timers, and waits briefly for a message. Returns how many NOTIFY have arrived.
    fn step(&mut self) -> u32 {
        let now = now(self.started);
        self.branches += 1;
        let own = self.socket.local_addr().unwrap();
        let mut via = Via::new(Transport::Udp, own.ip().into(), Some(own.port()));
        let branch = format!("z9hG4bKwatch{}", self.branches);
        via.params.set("branch", &branch);
        if let Some(request) = self.subscription.poll_request(now, &via, "word") {
            self.transactions.send(now, FLOW, request).unwrap();
        }
        let mut buffer = [0; 65536];
        if let Ok(length) = self.socket.recv(&mut buffer) {
            let bytes = Bytes::copy_from_slice(&buffer[..length]);
            let read = read_datagram(&bytes, &Limits::default()).unwrap();
            if let Datagram::Message { message, .. } = read {
                self.transactions.handle_message(now, FLOW, message);
            }
        }
        self.transactions.handle_timeout(now);
        let mut heard = 0;
        while let Some(event) = self.transactions.poll_event() {
            match event {
                Event::Request { id, request, .. } => {
                    assert!(self.subscription.is_of(&request.essentials().unwrap()));
                    let answer = self.subscription.handle_notify(now, &request);
                    self.transactions.respond(now, id, &answer).unwrap();
                    heard += 1;
                }
                Event::Response { response, .. } => {
                    self.subscription.handle_response(now, &response);
                }
                other => panic!("{other:?}"),
            }
        }
        while let Some(event) = self.subscription.poll_event() {
            assert_eq!(event, SubscriptionEvent::Changed);
        }
        while let Some(transmit) = self.transactions.poll_transmit() {
            self.socket.send(&transmit.bytes).unwrap();
        }
        heard
    }
}

fn now(started: Clock) -> Instant {
    let nanos = started.elapsed().as_nanos();
    Instant::from_nanos(1_000_000_000 + u64::try_from(nanos).unwrap())
}
