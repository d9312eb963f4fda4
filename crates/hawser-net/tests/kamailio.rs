//! Registrations of `hawser-sip` with Kamailio, as `contrib/kamailio` sets it up.

#[path = "kamailio/host.rs"]
mod host;
#[path = "kamailio/peer.rs"]
mod peer;
#[path = "kamailio/server.rs"]
mod server;
#[path = "kamailio/watcher.rs"]
mod watcher;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::Command;

use hawser_sip::agent::{RegistrationEvent, RegistrationFault};
use hawser_sip::digest::{Algorithm, ChallengeFault};
use hawser_sip::fields::NameAddr;
use hawser_sip::session::{EndReason, SessionEvent};
use host::{Host, Over};
use peer::Peer;
use server::{Beside, Kamailio};
use watcher::Watcher;

/// Returns `None`, and reports that the test is skipped, where Kamailio is not installed.
fn start(test: &str, algorithm: Algorithm) -> Option<Kamailio> {
    let kamailio = Kamailio::start(algorithm, free_address(), |it| Command::new(it));
    if kamailio.is_none() {
        let reason = "kamailio (package kamailio) is not installed";
        hawser_skip::skip(&format!("hawser-net::kamailio::{test}"), reason);
    }
    kamailio
}

/// Returns an address whose TCP port was free a moment ago.
fn free_address() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap()
}

/// Returns the contacts of a successful registration, without the seconds left.
fn registered(event: RegistrationEvent) -> Vec<String> {
    let RegistrationEvent::Registered { bindings, .. } = event else {
        panic!("{event:?}");
    };
    let mut contacts: Vec<_> = bindings.into_iter().map(without_seconds).collect();
    contacts.sort();
    contacts
}

fn without_seconds(mut contact: NameAddr) -> String {
    assert!(
        contact
            .expires()
            .unwrap()
            .is_some_and(|seconds| seconds.0 > 500)
    );
    contact.params.remove("expires");
    contact.to_string()
}

/// Checks that every host of the user learns all contacts from its own registration.
fn contacts_are_shared(test: &str, over: Over, algorithm: Algorithm) {
    let Some(kamailio) = start(test, algorithm) else {
        return;
    };
    let mut laptop = Host::new(&kamailio, over, "a", algorithm);
    laptop.set_contacts(&[
        ("sip:alice@192.0.2.1", 750),
        ("sip:alice@[2001:db8::1]:5070", 125),
    ]);
    let first = [
        "<sip:alice@192.0.2.1>;q=0.75",
        "<sip:alice@[2001:db8::1]:5070>;q=0.125",
    ];
    assert_eq!(registered(laptop.settle()), first);
    let mut home = Host::new(&kamailio, over, "a", algorithm);
    home.set_contacts(&[("sip:alice@198.51.100.7", 333)]);
    let third = "<sip:alice@198.51.100.7>;q=0.333";
    assert_eq!(registered(home.settle()), [first[0], third, first[1]]);
    // One link vanishes, another one is better than before: one request changes both.
    laptop.set_contacts(&[("sip:alice@[2001:db8::1]:5070", 1000)]);
    let changed = "<sip:alice@[2001:db8::1]:5070>;q=1";
    assert_eq!(registered(laptop.settle()), [third, changed]);
    home.set_contacts(&[]);
    assert_eq!(home.settle(), RegistrationEvent::Removed);
    laptop.set_contacts(&[("sip:alice@192.0.2.9", 1)]);
    assert_eq!(
        registered(laptop.settle()),
        ["<sip:alice@192.0.2.9>;q=0.001"]
    );
}

#[test]
fn contacts_are_shared_over_datagrams_with_sha_256() {
    let test = "contacts_are_shared_over_datagrams_with_sha_256";
    contacts_are_shared(test, Over::Udp, Algorithm::Sha256);
}

#[test]
fn contacts_are_shared_over_a_stream_with_md5() {
    let test = "contacts_are_shared_over_a_stream_with_md5";
    contacts_are_shared(test, Over::Tcp, Algorithm::Md5);
}

#[test]
fn a_wrong_password_is_refused() {
    let Some(kamailio) = start("a_wrong_password_is_refused", Algorithm::Sha256) else {
        return;
    };
    let mut host = Host::new(&kamailio, Over::Udp, "wrong", Algorithm::Sha256);
    host.set_contacts(&[("sip:alice@192.0.2.1", 1000)]);
    let RegistrationEvent::Failed { fault, .. } = host.settle() else {
        panic!("the password is wrong");
    };
    assert_eq!(fault, RegistrationFault::Challenge(ChallengeFault::Refused));
}

#[test]
fn each_link_of_a_host_has_a_number_and_a_new_address_replaces_the_old_one() {
    let test = "each_link_of_a_host_has_a_number_and_a_new_address_replaces_the_old_one";
    let Some(kamailio) = start(test, Algorithm::Sha256) else {
        return;
    };
    let mut links: Vec<_> = [1, 2]
        .map(|number| Host::link(&kamailio, "<urn:uuid:0e6a3c5e>", number))
        .into();
    links[0].set_contacts(&[("sip:alice@192.0.2.1", 600)]);
    registered(links[0].settle());
    links[1].set_contacts(&[("sip:alice@192.0.2.2", 400)]);
    registered(links[1].settle());
    links[0].set_contacts(&[("sip:alice@192.0.2.3", 600)]);
    let hosts: Vec<_> = registered(links[0].settle())
        .iter()
        .map(|contact| contact.split('>').next().unwrap().to_owned())
        .collect();
    assert_eq!(hosts, ["<sip:alice@192.0.2.2", "<sip:alice@192.0.2.3"]);
}

#[test]
fn a_user_who_watches_is_told_of_each_change_of_contacts() {
    let test = "a_user_who_watches_is_told_of_each_change_of_contacts";
    let database = tempfile::tempdir().unwrap();
    let tables = [
        "version",
        "presentity",
        "active_watchers",
        "watchers",
        "pua",
    ];
    for table in tables {
        let shipped = format!("/usr/share/kamailio/dbtext/kamailio/{table}");
        // A missing table means that Kamailio is missing.
        let _ = std::fs::copy(shipped, database.path().join(table));
    }
    let address = free_address();
    let reg = Beside {
        file: "reg.cfg",
        module: "pua_reginfo.so",
        own: &[
            ("192.0.2.1:5060", address.to_string()),
            (
                "/var/lib/kamailio/reg",
                database.path().display().to_string(),
            ),
        ],
    };
    let run = |it: &str| Command::new(it);
    let Some(kamailio) = Kamailio::start_beside(Algorithm::Sha256, address, &reg, run) else {
        let reason = "kamailio (packages kamailio, kamailio-presence-modules) is not installed";
        return hawser_skip::skip(&format!("hawser-net::kamailio::{test}"), reason);
    };
    let mut watcher = Watcher::new(&kamailio);
    watcher.until_it_is_told_something();
    let mut host = Host::new(&kamailio, Over::Udp, "a", Algorithm::Sha256);
    host.set_contacts(&[("sip:alice@192.0.2.1", 250), ("sip:alice@192.0.2.2", 750)]);
    registered(host.settle());
    watcher.until(&["sip:alice@192.0.2.2", "sip:alice@192.0.2.1"]);
    host.set_contacts(&[("sip:alice@192.0.2.3", 1000)]);
    registered(host.settle());
    watcher.until(&["sip:alice@192.0.2.3"]);
    host.set_contacts(&[]);
    assert_eq!(host.settle(), RegistrationEvent::Removed);
    watcher.until(&[]);
}

/// Runs both ends until a condition holds.
fn until(caller: &mut Peer, called: &mut Peer, is_so: impl Fn(&Peer, &Peer) -> bool) {
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !is_so(caller, called) {
        assert!(
            std::time::Instant::now() < end,
            "{:?} {:?}",
            caller.heard,
            called.heard
        );
        caller.step();
        called.step();
    }
}

#[test]
fn a_session_by_name_is_opened_follows_both_ends_and_is_ended() {
    let test = "a_session_by_name_is_opened_follows_both_ends_and_is_ended";
    let Some(kamailio) = start(test, Algorithm::Sha256) else {
        return;
    };
    let (mut visitor, mut alice) = (
        Peer::new(&kamailio, "visitor"),
        Peer::new(&kamailio, "alice"),
    );
    let mut registration = Host::new(&kamailio, Over::Udp, "a", Algorithm::Sha256);
    let contact = format!("sip:alice@{}", alice.address());
    registration.set_contacts(&[(&contact, 1000)]);
    registered(registration.settle());
    visitor.call("sip:alice@example.org");
    until(&mut visitor, &mut alice, |visitor, _| {
        !visitor.heard.is_empty()
    });
    assert_eq!(visitor.heard, [SessionEvent::Accepted("alice 1".into())]);
    assert_eq!(alice.offers, ["visitor 1"]);
    // Kamailio has put itself on the route of later requests.
    let hop = |peer: &Peer| {
        let session = peer.session.as_ref().unwrap();
        session.next_hop().unwrap().to_string()
    };
    assert!(hop(&visitor).starts_with(&format!("sip:{}", kamailio.address)));
    let own = visitor.own(2);
    visitor.session.as_mut().unwrap().set_own(own);
    until(&mut visitor, &mut alice, |visitor, _| {
        visitor.heard.len() == 2
    });
    assert_eq!(alice.offers, ["visitor 1", "visitor 2"]);
    let own = alice.own(2);
    alice.session.as_mut().unwrap().set_own(own);
    until(&mut visitor, &mut alice, |_, alice| !alice.heard.is_empty());
    assert_eq!(visitor.offers, ["alice 2"]);
    alice.session.as_mut().unwrap().hang_up();
    let is_over = |peer: &Peer| peer.session.as_ref().unwrap().is_over();
    until(&mut visitor, &mut alice, |visitor, alice| {
        is_over(visitor) && is_over(alice)
    });
    assert_eq!(
        visitor.heard.last(),
        Some(&SessionEvent::Ended(EndReason::Remote))
    );
}
