//! Two hosts that reach each other by name, at changing addresses.

mod behind_nat;
pub(crate) mod stage;

use std::io::{Read as _, Write as _};

use hawser_skip::namespace::{in_namespace, ip};

use super::program::until;
use stage::{Stage, echo};

#[test]
fn a_stream_by_name_reaches_what_the_other_host_offers_and_nothing_else() {
    in_namespace(
        "by_name::a_stream_by_name_reaches_what_the_other_host_offers_and_nothing_else",
        || {
            let stage = Stage::new();
            stage.know_each_other();
            let (_directory, bob) = (stage.serve(), stage.up_bob(&["--offer", "7000"]));
            let alice = stage.up_alice(&[]);
            stage.until_registered(&alice, &bob);
            let mut stream = stage.connect(&alice, "bob.example.org", 7000).unwrap();
            echo(&mut stream, 300_000);
            // Something listens there, and is not offered.
            let code = stage.connect(&alice, "bob.example.org", 7001).unwrap_err();
            assert_eq!(code, NOT_ALLOWED, "{}", bob.log());
            // All links carry the one session.
            let channels = || stage.links_of_session("alice");
            until("all links are used", || channels() == 2, || alice.log());
            // A second stream needs neither a call nor a handshake.
            let before = stage.sessions_begun("bob");
            let mut second = stage.connect(&alice, "BOB.example.org.", 7000).unwrap();
            echo(&mut second, 1000);
            assert_eq!(stage.sessions_begun("bob"), before);
            echo(&mut stream, 1000);
            bob.end();
            alice.end();
        },
    );
}

#[test]
fn who_is_not_known_gets_nothing_and_both_are_told_why() {
    in_namespace(
        "by_name::who_is_not_known_gets_nothing_and_both_are_told_why",
        || {
            let stage = Stage::new();
            let bob_key = stage.key("bob");
            stage.know("alice", "bob@example.org", &bob_key);
            let (_directory, bob) = (stage.serve(), stage.up_bob(&["--offer", "7000"]));
            let alice = stage.up_alice(&[]);
            stage.until_registered(&alice, &bob);
            let code = stage.connect(&alice, "bob.example.org", 7000).unwrap_err();
            assert_eq!(code, UNREACHABLE, "{}", alice.log());
            assert!(
                alice.log().contains("it does not know this host"),
                "{}",
                alice.log()
            );
            // Bob adds her while both run.
            stage.know("bob", "alice@example.org", &stage.key("alice"));
            let connected = || stage.connect(&alice, "bob.example.org", 7000).is_ok();
            until("she is let in", connected, || alice.log() + &bob.log());
            // And forgets her again.
            let mut stream = stage.connect(&alice, "bob.example.org", 7000).unwrap();
            echo(&mut stream, 1000);
            let removed = stage
                .place
                .run("bob", &["peers", "remove", "alice@example.org"]);
            assert_eq!(removed.code, 0, "{removed:?}");
            let is_over = || {
                let written = stream.write_all(b"x");
                written.is_err() || !matches!(stream.read(&mut [0; 1]), Ok(1))
            };
            until("the stream is over", is_over, || bob.log());
            bob.end();
            alice.end();
        },
    );
}

#[test]
fn the_first_key_is_taken_on_trust_where_the_user_wants_that() {
    in_namespace(
        "by_name::the_first_key_is_taken_on_trust_where_the_user_wants_that",
        || {
            let stage = Stage::new();
            stage.know("alice", "bob@example.org", "--trust-first");
            stage.know("bob", "alice@example.org", &stage.key("alice"));
            let (_directory, bob) = (stage.serve(), stage.up_bob(&["--offer", "7000"]));
            let alice = stage.up_alice(&[]);
            stage.until_registered(&alice, &bob);
            let mut stream = stage.connect(&alice, "bob.example.org", 7000).unwrap();
            echo(&mut stream, 1000);
            let listed = stage.place.run("alice", &["peers", "list"]).out;
            assert!(listed.contains(&stage.key("bob")), "{listed}");
            assert!(listed.contains("on trust"), "{listed}");
            assert!(
                alice.log().contains("trusting the first key"),
                "{}",
                alice.log()
            );
            bob.end();
            alice.end();
        },
    );
}

#[test]
fn a_host_that_cannot_be_reached_comes_to_the_caller() {
    in_namespace(
        "by_name::a_host_that_cannot_be_reached_comes_to_the_caller",
        || {
            let stage = Stage::new();
            if !stage.refuses_all("bob") {
                let test = "end_to_end::by_name::a_host_that_cannot_be_reached";
                return hawser_skip::skip(test, "no nft here");
            }
            stage.know_each_other();
            let (_directory, bob) = (stage.serve(), stage.up_bob(&["--offer", "7000"]));
            let alice = stage.up_alice(&[]);
            stage.until_registered(&alice, &bob);
            let mut stream = stage.connect(&alice, "bob.example.org", 7000).unwrap();
            echo(&mut stream, 100_000);
            assert!(bob.log().contains("does not connect"), "{}", bob.log());
            bob.end();
            alice.end();
        },
    );
}

/// Opens a stream, moves both hosts at the same moment, and then one after the other.
fn both_move(stage: &Stage) {
    stage.know_each_other();
    let bob = stage.up_bob(&["--offer", "7000"]);
    let alice = stage.up_alice(&[]);
    stage.until_registered(&alice, &bob);
    let mut stream = stage.connect(&alice, "bob.example.org", 7000).unwrap();
    echo(&mut stream, 100_000);
    let begun = stage.sessions_begun("bob");
    // No address of either end outlives this.
    stage.move_alice(7);
    stage.move_bob(7);
    echo(&mut stream, 300_000);
    stage.move_bob(2);
    echo(&mut stream, 100_000);
    ip("link set dsl down");
    echo(&mut stream, 100_000);
    assert_eq!(stage.sessions_begun("bob"), begun, "{}", alice.log());
    bob.end();
    alice.end();
}

#[test]
fn a_stream_goes_on_when_both_hosts_move_at_the_same_moment() {
    in_namespace(
        "by_name::a_stream_goes_on_when_both_hosts_move_at_the_same_moment",
        || {
            let stage = Stage::new();
            let _directory = stage.serve();
            both_move(&stage);
        },
    );
}

#[test]
fn the_same_with_kamailio_as_the_directory() {
    let test = "by_name::the_same_with_kamailio_as_the_directory";
    in_namespace(test, || {
        let stage = Stage::new();
        let Some(_kamailio) = stage.kamailio() else {
            let reason = "kamailio (package kamailio) is not installed";
            return hawser_skip::skip(&format!("end_to_end::{test}"), reason);
        };
        both_move(&stage);
    });
}

#[test]
fn streams_go_on_and_begin_while_the_directory_is_away() {
    in_namespace(
        "by_name::streams_go_on_and_begin_while_the_directory_is_away",
        || {
            let stage = Stage::new();
            stage.know_each_other();
            let (directory, bob) = (stage.serve(), stage.up_bob(&["--offer", "7000"]));
            let alice = stage.up_alice(&[]);
            stage.until_registered(&alice, &bob);
            let mut stream = stage.connect(&alice, "bob.example.org", 7000).unwrap();
            echo(&mut stream, 1000);
            directory.kill();
            echo(&mut stream, 1000);
            let mut second = stage.connect(&alice, "bob.example.org", 7000).unwrap();
            echo(&mut second, 1000);
            // One end moves: the other one's joins come to it all the same.
            stage.move_alice(7);
            echo(&mut stream, 100_000);
            bob.end();
            alice.end();
        },
    );
}

/// Codes of SOCKS5.
const NOT_ALLOWED: u8 = 2;
const UNREACHABLE: u8 = 4;
const TIMED_OUT: u8 = 6;
