//! A server that receives arbitrary datagrams.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use hawser_types::{Host, Instant};

use crate::digest::{Algorithm, Answerer, Challenge, Secret, Verifier};
use crate::directory::{Directory, DirectoryConfig, Output, Reach};
use crate::fields::{Transport, Via};
use crate::message::{
    Datagram, HeaderName, Limits, Message, Method, Request, Response, StatusCode, read_datagram,
};
use crate::proxy::{Decision, Forward, Proxy};
use crate::registrar::{KeptBinding, LocationLimits, Moment, Origin, Registrar, Users};
use crate::subscription::{Notifier, NotifierLimits, Subscriber};
use crate::transaction::{Config, Event, Flow, TransactionId, Transactions};
use crate::uri::SipUri;

/// Handles datagrams, separated by zeros. The first byte of each gives its delay after the one
/// before, and whether its sender knows the password.
pub fn fuzz_server(script: &[u8]) {
    let mut server = Server::new();
    for datagram in script.split(|byte| *byte == 0).take(MAX_DATAGRAMS) {
        let Some((first, datagram)) = datagram.split_first() else {
            continue;
        };
        server.pass(Duration::from_millis(u64::from(first >> 1) * 100));
        server.handle(datagram, first & 1 == 1);
        server.check();
    }
    // All state must expire, however seldom timers are handled.
    let latest = server.now + MAX_LIFE;
    let mut pause = Duration::from_secs(1);
    while !server.is_idle() {
        assert!(server.now < latest, "something does not end");
        server.pass(pause);
        server.check();
        pause *= 2;
    }
}

struct Server {
    now: Instant,
    transactions: Transactions,
    registrar: Registrar,
    notifier: Notifier,
    proxy: Proxy,
    /// The same parts combined, with a registered user.
    directory: Directory,
    branches: u32,
}

struct Everybody;

struct Everywhere;

impl Reach for Everywhere {
    fn may_reach(&self, _: IpAddr, _: bool) -> bool {
        true
    }
}

impl Users for Everybody {
    fn secret(&self, username: &str, algorithm: Algorithm) -> Option<Secret> {
        Some(Secret::new(algorithm, username, "example.org", "p"))
    }

    fn may_register(&self, _: &str, _: &str) -> bool {
        true
    }
}

impl Server {
    fn new() -> Self {
        let mut config = Config::new("t");
        config.max_servers = 16;
        config.max_clients = 16;
        let limits = LocationLimits {
            max_addresses: 4,
            max_contacts: 3,
            ..LocationLimits::default()
        };
        let watchers = NotifierLimits {
            max_watchers: 4,
            ..NotifierLimits::default()
        };
        let lifetime = Duration::from_secs(60);
        let verifier = Verifier::new(
            "example.org",
            &[1; 32],
            lifetime,
            &[Algorithm::Sha256, Algorithm::Md5],
        );
        let domain = || "example.org".parse().expect("it is a name");
        let own = SipUri::new(None, domain(), None).expect("there is no user");
        Self {
            now: Instant::from_nanos(1_000_000_000),
            transactions: Transactions::new(config),
            registrar: Registrar::new(vec![domain()], verifier, limits, "r"),
            notifier: Notifier::new(watchers),
            proxy: Proxy::new(own.clone(), vec![domain()], &[2; 32]),
            directory: directory(vec![domain()], own),
            branches: 0,
        }
    }

    fn handle(&mut self, datagram: &[u8], knows_password: bool) {
        let bytes = Bytes::copy_from_slice(datagram);
        let source = SocketAddr::from(([192, 0, 2, 1], 5060));
        self.directory.handle_datagram(self.now, 0, source, &bytes);
        let message = match read_datagram(&bytes, &Limits::default()) {
            Ok(Datagram::Message { message, .. }) => message,
            Ok(Datagram::KeepAlive) => return,
            Err(malformed) => {
                let _ = malformed.answer("t").map(|answer| answer.to_bytes());
                return;
            }
        };
        self.transactions.handle_message(self.now, FLOW, message);
        while let Some(event) = self.transactions.poll_event() {
            if let Event::Request { id, request, .. } = event {
                self.react(id, request, knows_password);
            }
        }
    }

    fn react(&mut self, id: TransactionId, request: Request, knows_password: bool) {
        let answer = match request.method {
            Method::Register => self.register(&request, knows_password),
            Method::Subscribe => {
                self.branches += 1;
                let subscriber = Subscriber {
                    user: "a",
                    origin: Origin::default(),
                    tag: &format!("n{}", self.branches),
                    contact: "sip:example.org",
                };
                self.notifier
                    .handle_subscribe(self.now, &request, &subscriber)
            }
            // Never answered: the transaction times out.
            Method::Cancel => return,
            _ => {
                let location = self.registrar.location();
                match self.proxy.handle_request(self.now, &request, location) {
                    Decision::Refuse(refusal) => refusal.answer(&request, "p"),
                    Decision::Own => Response::new(&request, StatusCode::OK, Some("p")),
                    Decision::Forward(forwards) => {
                        self.forward(forwards);
                        Response::new(&request, StatusCode::DECLINE, Some("p"))
                    }
                }
            }
        };
        let _ = self.transactions.respond(self.now, id, &answer);
    }

    fn register(&mut self, request: &Request, knows_password: bool) -> Response {
        let source: IpAddr = [192, 0, 2, 1].into();
        let now = self.now;
        let registrar = &mut self.registrar;
        let asked = registrar.handle_register(now, source, request, &Everybody);
        if asked.status != StatusCode::UNAUTHORIZED || !knows_password {
            return asked;
        }
        let challenges = asked.headers.raw(&HeaderName::WwwAuthenticate);
        let challenges: Vec<_> = challenges
            .map(|text| Challenge::parse(text).expect("it was written"))
            .collect();
        let mut answerer = Answerer::new("a", "p", Algorithm::Md5);
        answerer
            .handle_challenges(&challenges)
            .expect("both algorithms are known");
        let target = request.uri.to_string();
        let proof = answerer.credentials(&request.method, &target, "c");
        let mut proven = request.clone();
        let proof = proof.expect("there was a challenge");
        proven.headers.set(HeaderName::Authorization, proof);
        let answer = registrar.handle_register(now, source, &proven, &Everybody);
        assert_ne!(answer.status, StatusCode::UNAUTHORIZED);
        answer
    }

    fn forward(&mut self, forwards: Vec<Forward>) {
        assert!(forwards.len() <= 3);
        for forward in forwards {
            let via = self.via();
            self.branches += 1;
            let request = forward.to_request(via, &self.branches.to_string());
            let _ = self.transactions.send(self.now, FLOW, request);
        }
    }

    fn via(&mut self) -> Via {
        let host = "example.org".parse().expect("it is a name");
        let mut via = Via::new(Transport::Udp, host, None);
        self.branches += 1;
        via.params
            .set("branch", &format!("z9hG4bK{}", self.branches));
        via
    }

    fn pass(&mut self, span: Duration) {
        self.now += span;
        self.transactions.handle_timeout(self.now);
        if self
            .directory
            .poll_timeout()
            .is_some_and(|at| at <= self.now)
        {
            self.directory.handle_timeout(self.now);
        }
        let location = self.registrar.location_mut();
        location.handle_timeout(self.now);
        while let Some(address) = location.poll_change() {
            self.notifier.handle_change(&address);
        }
        self.notifier.handle_timeout(self.now);
        while self.notifier.has_news() {
            let via = self.via();
            let location = self.registrar.location();
            let notify = self.notifier.poll_notify(self.now, location, &via);
            let notify = notify.expect("there is news");
            let essentials = notify.request.essentials();
            essentials.expect("what is made here is whole");
            let status = Some(StatusCode::OK);
            self.notifier.handle_outcome(notify.watcher, status);
        }
        while self.transactions.poll_event().is_some() {}
    }

    /// Whether there is no binding, transaction or watcher.
    fn is_idle(&self) -> bool {
        self.directory.location().is_empty()
            && self.transactions.counts() == (0, 0)
            && self.registrar.location().is_empty()
            && self.notifier.is_empty()
    }

    /// Checks the bounds, and that sent messages can be parsed.
    fn check(&mut self) {
        let (clients, servers) = self.transactions.counts();
        assert!(clients <= 16 && servers <= 16);
        assert!(self.registrar.location().len() <= 4);
        assert!(self.notifier.len() <= 4);
        let limits = Limits {
            max_head: 1 << 20,
            max_headers: 10_000,
            max_body: 1 << 20,
        };
        while self.directory.poll_change().is_some() {}
        while let Some(output) = self.directory.poll_output() {
            let Output::Datagram { bytes, .. } = output else {
                continue;
            };
            let read = read_datagram(&bytes, &limits);
            assert!(
                matches!(read, Ok(Datagram::Message { .. })),
                "{bytes:?} is no message"
            );
        }
        while let Some(transmit) = self.transactions.poll_transmit() {
            let read = read_datagram(&transmit.bytes, &limits);
            let Ok(Datagram::Message { message, .. }) = read else {
                panic!("{:?} is no message", transmit.bytes);
            };
            if let Message::Request(request) = message {
                request.essentials().expect("what is sent is whole");
            }
        }
    }
}

/// Creates a directory in which `a` is registered at two addresses.
fn directory(domains: Vec<Host>, own: SipUri) -> Directory {
    let sockets = vec![SocketAddr::from(([198, 51, 100, 1], 5060))];
    let mut config = DirectoryConfig::new(domains, own, sockets);
    config.max_forwarded = 8;
    config.max_requests = 16;
    let mut directory = Directory::new(
        config,
        (Box::new(Everybody), Box::new(Everywhere)),
        &[3; 32],
        &[4; 32],
    );
    let moment = Moment {
        now: Instant::from_nanos(1_000_000_000),
        unix_ms: 0,
    };
    let bindings = ["<sip:a@192.0.2.7>", "<sip:a@192.0.2.8;transport=tcp>"].map(|contact| {
        let kept = KeptBinding {
            contact: contact.to_owned(),
            q: 500,
            expires_unix_ms: 3_600_000,
            updated_unix_ms: 0,
            call_id: "1".to_owned(),
            cseq: 1,
            path: String::new(),
            outbound: None,
            source: None,
        };
        let binding = kept.to_binding(moment, Duration::from_secs(3600));
        binding.expect("it can be read")
    });
    let location = directory.location_mut();
    let restored = location.restore(moment.now, "sip:a@example.org", bindings.to_vec());
    restored.expect("there is room");
    directory
}

const FLOW: Flow = Flow {
    number: 1,
    is_reliable: false,
};

/// Time after the last datagram until all state has expired: registrations last an hour at most.
const MAX_LIFE: Duration = Duration::from_secs(2 * 3600);

/// Datagrams of one script that are handled.
const MAX_DATAGRAMS: usize = 64;
