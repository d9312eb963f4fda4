use std::net::{IpAddr, SocketAddr};

use hawser_types::Rate;

use super::*;
use crate::agent::RegistrationFault;
use crate::digest::Algorithm;
use crate::directory::{Directory, DirectoryConfig, Output};
use crate::message::{Datagram, Limits, read_datagram};
use crate::testing::{Everybody, Everywhere};
use crate::uri::Uri;

/// A host with some links, and a directory that answers over links that are not silent.
struct Stage {
    now: Instant,
    host: Announcer,
    directory: Directory,
    links: Vec<TestLink>,
    is_away: bool,
    events: Vec<RegistrationEvent>,
    pings: usize,
    requests: usize,
}

#[derive(Clone)]
struct TestLink {
    number: u64,
    address: IpAddr,
    /// Public address that a translator gives to it.
    outside: SocketAddr,
    rate: u64,
    is_silent: bool,
}

fn link(number: u64, address: &str, rate: u64) -> TestLink {
    let address: IpAddr = address.parse().unwrap();
    TestLink {
        number,
        address,
        outside: (address, 5070).into(),
        rate,
        is_silent: false,
    }
}

fn sip(text: &str) -> SipUri {
    let uri: Uri = text.parse().unwrap();
    uri.as_sip().unwrap().clone()
}

impl Stage {
    fn new(links: &[TestLink], password: &str) -> Self {
        let config = AnnouncerConfig {
            name: sip("sip:alice@example.org"),
            transport: Transport::Udp,
            lifetime: Duration::from_secs(600),
        };
        let answerer = Answerer::new("alice", password, Algorithm::Sha256);
        let domains = vec!["example.org".parse().unwrap()];
        let at = vec!["198.51.100.1:5060".parse().unwrap()];
        let directory = DirectoryConfig::new(domains, sip("sip:198.51.100.1"), at);
        let mut stage = Self {
            now: Instant::from_nanos(1_000_000_000),
            host: Announcer::new(config, Some(answerer), &[4; 32]),
            directory: Directory::new(
                directory,
                (Box::new(Everybody), Box::new(Everywhere)),
                &[5; 32],
                &[6; 32],
            ),
            links: Vec::new(),
            is_away: false,
            events: Vec::new(),
            pings: 0,
            requests: 0,
        };
        stage.set_links(links);
        stage
    }

    fn set_links(&mut self, links: &[TestLink]) {
        self.links = links.to_vec();
        let addresses = links.iter().map(|link| OwnAddress {
            flow: flow(link),
            address: link.address,
            port: 5070,
            rate: Rate::from_bits_per_second(link.rate),
        });
        self.host.set_addresses(self.now, addresses.collect());
        self.exchange();
    }

    fn exchange(&mut self) {
        loop {
            self.events
                .extend(std::iter::from_fn(|| self.host.poll_event()));
            let Some(Transmit { flow: by, bytes }) = self.host.poll_transmit() else {
                return;
            };
            let link = self.links.iter().find(|link| flow(link) == by).cloned();
            let Some(link) = link.filter(|link| !link.is_silent && !self.is_away) else {
                continue;
            };
            match &bytes[..] {
                b"\r\n\r\n" => self.pings += 1,
                _ => self.requests += 1,
            }
            self.directory
                .handle_datagram(self.now, 0, link.outside, &bytes);
            while let Some(output) = self.directory.poll_output() {
                let Output::Datagram { to, bytes, .. } = output else {
                    panic!("{output:?}");
                };
                assert_eq!(to, link.outside);
                let read = read_datagram(&bytes, &Limits::default());
                let Ok(Datagram::Message { message, .. }) = read else {
                    panic!("{bytes:?}");
                };
                self.host.handle_message(self.now, flow(&link), message);
            }
        }
    }

    fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        while let Some(at) = self.host.poll_timeout().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.directory.handle_timeout(self.now);
            self.host.handle_timeout(self.now);
            self.exchange();
        }
        self.now = end;
        self.directory.handle_timeout(end);
    }

    /// Contacts registered at the directory, with their shares.
    fn registered(&self) -> Vec<(String, u16)> {
        let found = self
            .directory
            .location()
            .lookup(self.now, "sip:alice@example.org");
        let contacts = found.iter().map(|binding| {
            let uri = binding.contact.uri.to_string();
            (uri, binding.q.thousandths())
        });
        contacts.collect()
    }
}

fn flow(link: &TestLink) -> Flow {
    Flow {
        number: link.number,
        is_reliable: false,
    }
}

fn contact(host: &str, share: u16) -> (String, u16) {
    (format!("sip:alice@{host}"), share)
}

#[test]
fn all_addresses_are_registered_with_their_shares_and_what_goes_is_told_at_once() {
    let (wlan, lte) = (
        link(1, "192.0.2.1", 4_000_000),
        link(2, "192.0.2.2", 1_000_000),
    );
    let mut stage = Stage::new(&[wlan.clone(), lte.clone()], "p");
    // The directory answered both addresses, so there is nothing to wait for.
    let both = [
        contact("192.0.2.1:5070", 800),
        contact("192.0.2.2:5070", 200),
    ];
    assert_eq!(stage.registered(), both);
    stage.set_links(std::slice::from_ref(&lte));
    assert_eq!(stage.registered(), [contact("192.0.2.2:5070", 1000)]);
    stage.set_links(&[lte, wlan]);
    assert_eq!(stage.registered(), both);
    stage.pass(Duration::from_secs(7200));
    assert_eq!(stage.registered(), both);
    let is_good = |event: &RegistrationEvent| matches!(event, RegistrationEvent::Registered { .. });
    assert!(stage.events.iter().all(is_good), "{:?}", stage.events);
    stage.host.close(stage.now);
    stage.exchange();
    assert_eq!(stage.registered(), []);
    assert!(stage.host.is_closed());
}

#[test]
fn behind_a_translator_the_outer_address_is_registered_and_kept_open() {
    let mut behind = link(1, "10.0.0.7", 1);
    behind.outside = "203.0.113.9:40001".parse().unwrap();
    let mut stage = Stage::new(std::slice::from_ref(&behind), "p");
    assert_eq!(stage.registered(), [contact("203.0.113.9:40001", 1000)]);
    stage.pass(Duration::from_secs(100));
    // Pings after 25, 50 and 85 s; after 60 s the host asked for its address again.
    assert_eq!(stage.pings, 3);
    // The translator chooses another port.
    stage.links[0].outside = "203.0.113.9:40002".parse().unwrap();
    stage.pass(Duration::from_secs(61));
    assert_eq!(stage.registered(), [contact("203.0.113.9:40002", 1000)]);
    // Without a translator no mapping needs keep-alives.
    let mut stage = Stage::new(&[link(1, "192.0.2.1", 1)], "p");
    stage.pass(Duration::from_secs(100));
    assert_eq!(stage.pings, 0);
}

#[test]
fn the_directory_is_asked_over_another_link_where_one_is_silent() {
    let mut silent = link(1, "192.0.2.1", 9_000_000);
    silent.is_silent = true;
    let mut stage = Stage::new(&[silent, link(2, "192.0.2.2", 1_000_000)], "p");
    stage.pass(Duration::from_secs(2));
    // An address without an answer yet is registered; one that failed is not.
    assert_eq!(stage.registered().len(), 2);
    stage.pass(Duration::from_secs(60));
    assert_eq!(stage.registered(), [contact("192.0.2.2:5070", 1000)]);
    stage.links[0].is_silent = false;
    stage.pass(Duration::from_secs(300));
    assert_eq!(stage.registered().len(), 2);
    // The link to the directory falls silent: the other one is used.
    stage.links[0].is_silent = true;
    stage.pass(Duration::from_secs(900));
    assert_eq!(stage.registered(), [contact("192.0.2.2:5070", 1000)]);
}

#[test]
fn a_directory_that_is_away_is_asked_ever_less_often_and_has_all_when_it_is_back() {
    let mut stage = Stage::new(&[link(1, "192.0.2.1", 1)], "p");
    stage.is_away = true;
    stage.pass(Duration::from_secs(4000));
    assert_eq!(stage.registered(), []);
    let failed = stage.events.iter().filter(|event| {
        matches!(
            event,
            RegistrationEvent::Failed {
                fault: RegistrationFault::NoAnswer,
                ..
            }
        )
    });
    let count = failed.count();
    assert!((5..20).contains(&count), "{count}");
    stage.is_away = false;
    // The longest pause, and some.
    stage.pass(Duration::from_secs(340));
    assert_eq!(stage.registered().len(), 1);
}

#[test]
fn a_wrong_password_is_not_tried_again_and_again() {
    let mut stage = Stage::new(&[link(1, "192.0.2.1", 1)], "wrong");
    stage.pass(Duration::from_secs(3600));
    assert_eq!(stage.registered(), []);
    // Two REGISTERs per five minutes, and as many requests for the address.
    assert!(stage.requests < 60, "{}", stage.requests);
}

#[test]
fn shares_are_told_when_they_differ_much_and_not_too_often() {
    let (mut wlan, lte) = (link(1, "192.0.2.1", 500_000), link(2, "192.0.2.2", 500_000));
    let mut stage = Stage::new(&[wlan.clone(), lte.clone()], "p");
    let share = |stage: &Stage| stage.registered()[0].1;
    stage.pass(Duration::from_secs(100));
    assert_eq!(share(&stage), 500);
    wlan.rate = 540_000;
    stage.set_links(&[wlan.clone(), lte.clone()]);
    assert_eq!(share(&stage), 500);
    wlan.rate = 1_500_000;
    stage.set_links(&[wlan.clone(), lte.clone()]);
    assert_eq!(share(&stage), 750);
    wlan.rate = 500_000;
    stage.set_links(&[wlan.clone(), lte.clone()]);
    assert_eq!(share(&stage), 750, "half a minute is not over");
    stage.pass(Duration::from_secs(31));
    assert_eq!(share(&stage), 500);
}

#[test]
fn a_flow_that_fails_is_one_failure_whatever_was_asked_over_it() {
    let mut stage = Stage::new(&[], "p");
    stage.is_away = true;
    let link = link(1, "192.0.2.1", 1);
    stage.set_links(std::slice::from_ref(&link));
    // The request for the address and the REGISTER are in flight.
    stage.pass(Duration::from_secs(2));
    assert!(stage.host.asking.is_some());
    stage.host.handle_flow_failure(stage.now, flow(&link));
    assert_eq!(stage.host.own[0].rank().0, 1);
    stage.exchange();
    assert_eq!(stage.events.len(), 1, "{:?}", stage.events);
}
