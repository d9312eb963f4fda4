//! Hosts and a directory between them; a test may change or drop messages.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hawser_types::{Instant, Rate};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};

use crate::agent::{
    AnnouncerConfig, CallEvent, CandidateLink, Claim, HostAgent, Keys, OwnAddress, Verdict,
    candidates,
};
use crate::digest::{Algorithm, Answerer};
use crate::directory::{Directory, DirectoryConfig, Output};
use crate::fields::{Q, Transport};
use crate::message::{Datagram, Limits, read_datagram};
use crate::testing::{Everybody, Everywhere};
use crate::transaction::Flow;
use crate::uri::{SipUri, Uri};

/// A key, and the keys of others by their names.
struct Book {
    own: Ed25519KeyPair,
    known: BTreeMap<String, Vec<u8>>,
    kept: Kept,
}

/// Numbers of each host's newest description, which survive a restart.
#[expect(
    clippy::disallowed_types,
    reason = "a host has it in use while the test looks at it"
)]
pub(super) type Kept = Arc<std::sync::Mutex<BTreeMap<String, (u64, u64)>>>;

impl Keys for Book {
    fn own(&self) -> Vec<u8> {
        self.own.public_key().as_ref().to_vec()
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.own.sign(message).as_ref().to_vec()
    }

    fn judge(&mut self, claim: &Claim<'_>) -> Verdict {
        let Some(key) = self.known.get(claim.name) else {
            return Verdict::Stranger;
        };
        let verified = UnparsedPublicKey::new(&ED25519, key).verify(claim.message, claim.signature);
        if key == claim.key && verified.is_ok() {
            Verdict::Right
        } else {
            Verdict::Wrong
        }
    }

    fn newest(&self, name: &str) -> Option<(u64, u64)> {
        self.kept.lock().unwrap().get(name).copied()
    }

    fn set_newest(&mut self, name: &str, numbers: (u64, u64)) {
        self.kept.lock().unwrap().insert(name.to_owned(), numbers);
    }
}

fn pair(seed: u8) -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap()
}

pub(super) fn sip(text: &str) -> SipUri {
    let uri: Uri = text.parse().unwrap();
    uri.as_sip().unwrap().clone()
}

pub(super) struct TestHost {
    pub(super) agent: HostAgent,
    /// `None` while it has no link.
    pub(super) at: Option<SocketAddr>,
    flow: u64,
    pub(super) events: Vec<CallEvent>,
    /// Time of each event.
    pub(super) times: Vec<Instant>,
    pub(super) kept: Kept,
}

impl TestHost {
    pub(super) fn new(name: &str, seed: u8, known: &[(&str, u8)], number: u64) -> Self {
        Self::restarted(name, seed, known, (number, Kept::default()))
    }

    /// Start number after a restart with kept state.
    pub(super) fn restarted(
        name: &str,
        seed: u8,
        known: &[(&str, u8)],
        (number, kept): (u64, Kept),
    ) -> Self {
        let config = AnnouncerConfig {
            name: sip(&format!("sip:{name}@example.org")),
            transport: Transport::Udp,
            lifetime: Duration::from_secs(600),
        };
        let answerer = Answerer::new(name, "p", Algorithm::Sha256);
        let known = known.iter().map(|(name, seed)| {
            let key = pair(*seed).public_key().as_ref().to_vec();
            (format!("sip:{name}@example.org"), key)
        });
        let book = Book {
            own: pair(seed),
            known: known.collect(),
            kept: Arc::clone(&kept),
        };
        // Tokens that no earlier start has used.
        let (keys, seed) = (Box::new(book), [seed + 16 * (number % 10) as u8; 32]);
        Self {
            agent: HostAgent::new(config, Some(answerer), keys, number, &seed),
            at: None,
            flow: 0,
            events: Vec::new(),
            times: Vec::new(),
            kept,
        }
    }

    /// Addresses that it was told, the latest last.
    pub(super) fn reached(&self) -> Vec<String> {
        let reached = self.events.iter().filter_map(|event| match event {
            CallEvent::Reached { candidates, .. } => {
                let all = candidates.iter().map(|it| it.address.ip().to_string());
                Some(all.collect::<Vec<_>>().join(" "))
            }
            CallEvent::Ended { .. } => None,
        });
        reached.collect()
    }
}

/// Replaces a message from the directory to a host: by nothing, or by other messages.
pub(super) type Lie = Box<dyn FnMut(&str) -> Option<String>>;

pub(super) struct Stage {
    pub(super) now: Instant,
    pub(super) hosts: Vec<TestHost>,
    directory: Directory,
    /// Messages in flight: from there, or to there.
    up: Vec<(Instant, SocketAddr, Bytes)>,
    pub(super) down: Vec<(Instant, SocketAddr, Bytes)>,
    pub(super) lie: Lie,
    /// All messages that arrived at hosts.
    pub(super) seen: Vec<(SocketAddr, Bytes)>,
    pub(super) delay: Duration,
}

pub(super) const ALICE: usize = 0;
pub(super) const BOB: usize = 1;
pub(super) const CAROL: usize = 2;

impl Stage {
    /// Alice and Bob know each other; Carol knows Alice, but Alice does not know Carol.
    pub(super) fn new() -> Self {
        let domains = vec!["example.org".parse().unwrap()];
        let at = vec!["198.51.100.1:5060".parse().unwrap()];
        let config = DirectoryConfig::new(domains, sip("sip:198.51.100.1"), at);
        let mut stage = Self {
            now: Instant::from_nanos(1_000_000_000),
            hosts: vec![
                TestHost::new("alice", 1, &[("bob", 2)], 1000),
                TestHost::new("bob", 2, &[("alice", 1)], 1000),
                TestHost::new("carol", 3, &[("alice", 1)], 1000),
            ],
            directory: Directory::new(
                config,
                (Box::new(Everybody), Box::new(Everywhere)),
                &[5; 32],
                &[6; 32],
            ),
            up: Vec::new(),
            down: Vec::new(),
            lie: Box::new(|text| Some(text.to_owned())),
            seen: Vec::new(),
            delay: Duration::from_millis(10),
        };
        stage.move_to(ALICE, "192.0.2.1");
        stage.move_to(BOB, "192.0.2.2");
        stage.move_to(CAROL, "192.0.2.3");
        stage.pass(Duration::from_secs(3));
        stage
    }

    /// Gives a host this address, and removes all others.
    pub(super) fn move_to(&mut self, host: usize, address: &str) {
        let now = self.now;
        let host = &mut self.hosts[host];
        let at = SocketAddr::new(address.parse().unwrap(), 5070);
        host.at = Some(at);
        host.flow += 1;
        let own = OwnAddress {
            flow: Flow {
                number: host.flow,
                is_reliable: false,
            },
            address: at.ip(),
            port: at.port(),
            rate: Rate::from_bits_per_second(1_000_000),
        };
        host.agent.set_addresses(now, vec![own]);
        let place = CandidateLink {
            addresses: vec![at.ip()],
            seen: None,
            share: Q::ONE,
        };
        host.agent.set_candidates(now, candidates(&[place], 7443));
        self.settle();
    }

    pub(super) fn call(&mut self, from: usize, to: &str) {
        let to = sip(&format!("sip:{to}@example.org"));
        self.hosts[from].agent.call(self.now, &to);
        self.settle();
    }

    pub(super) fn call_anew(&mut self, from: usize, to: &str) {
        let to = sip(&format!("sip:{to}@example.org"));
        self.hosts[from].agent.call_anew(self.now, &to);
        self.settle();
    }

    /// Delivers a forged message to a host.
    pub(super) fn inject(&mut self, to: SocketAddr, bytes: &Bytes) {
        self.down.push((self.now, to, bytes.clone()));
        self.pass(Duration::from_millis(1));
    }

    pub(super) fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        loop {
            let hosts = self.hosts.iter().map(|host| host.agent.poll_timeout());
            let due = hosts.chain([self.directory.poll_timeout()]).flatten();
            let up = self.up.iter().map(|(at, ..)| *at);
            let down = self.down.iter().map(|(at, ..)| *at);
            let Some(at) = due.chain(up).chain(down).min().filter(|at| *at <= end) else {
                break;
            };
            self.now = self.now.max(at);
            self.deliver();
            for host in &mut self.hosts {
                if host.agent.poll_timeout().is_some_and(|at| at <= self.now) {
                    host.agent.handle_timeout(self.now);
                }
            }
            self.directory.handle_timeout(self.now);
            self.settle();
        }
        self.now = end;
    }

    fn deliver(&mut self) {
        let now = self.now;
        let up = self.up.extract_if(.., |(at, ..)| *at <= now);
        for (_, from, bytes) in up.collect::<Vec<_>>() {
            self.directory.handle_datagram(now, 0, from, &bytes);
        }
        let down = self.down.extract_if(.., |(at, ..)| *at <= now);
        for (_, to, bytes) in down.collect::<Vec<_>>() {
            self.seen.push((to, bytes.clone()));
            let Ok(Datagram::Message { message, .. }) = read_datagram(&bytes, &Limits::default())
            else {
                continue;
            };
            let mut hosts = self.hosts.iter_mut();
            if let Some(host) = hosts.find(|host| host.at == Some(to)) {
                let flow = Flow {
                    number: host.flow,
                    is_reliable: false,
                };
                host.agent.handle_message(now, flow, message);
            }
        }
    }

    /// Collects all outgoing messages and events.
    fn settle(&mut self) {
        let arrives = self.now + self.delay;
        for host in &mut self.hosts {
            while host.agent.poll_event().is_some() {}
            while let Some(event) = host.agent.poll_call_event() {
                host.events.push(event);
                host.times.push(self.now);
            }
            while let Some(transmit) = host.agent.poll_transmit() {
                if let Some(at) = host.at.filter(|_| transmit.flow.number == host.flow) {
                    self.up.push((arrives, at, transmit.bytes));
                }
            }
        }
        while let Some(output) = self.directory.poll_output() {
            if let Output::Datagram { to, bytes, .. } = output {
                let text = std::str::from_utf8(&bytes).unwrap();
                if let Some(text) = (self.lie)(text) {
                    self.down.push((arrives, to, Bytes::from(text)));
                }
            }
        }
    }
}
