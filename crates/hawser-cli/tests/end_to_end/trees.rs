//! `send` of directories and of standard input.

use std::fs::{self, Permissions};
use std::io::{PipeWriter, Write as _, pipe};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;

use hawser_skip::namespace::{Neighbour, in_namespace, ip};
use rustix::process::Signal;
use serde_json::Value;

use super::connections::two_links;
use super::files::{file, receive, received};
use super::origin::page;
use super::program::{Daemon, Ended, Place, until};

/// Creates a tree in the folder `out/tree`, with entries that can be sent and some that cannot.
fn tree(place: &Place) -> String {
    for number in 0..40 {
        let name = format!("out/tree/many/{number}");
        file(place, &name, &page(number * 1000));
    }
    let program = file(place, "out/tree/bin/program", b"#!/bin/sh\n");
    fs::set_permissions(program, Permissions::from_mode(0o4755)).unwrap();
    place.folder("out/tree/empty");
    symlink("../many/7", place.path("out/tree/bin/seven")).unwrap();
    symlink("/etc/passwd", place.path("out/tree/passwd")).unwrap();
    place.path("out/tree").to_str().unwrap().to_owned()
}

/// Fails unless the tree is in the folder `in`, under this name.
fn check_tree(place: &Place, name: &str) {
    let top = place.path("in").join(name);
    for number in 0..40 {
        let content = fs::read(top.join(format!("many/{number}"))).unwrap();
        assert!(content == page(number * 1000), "{number}");
    }
    let mode = fs::metadata(top.join("bin/program")).unwrap().permissions();
    assert_eq!(mode.mode() & 0o7700, 0o700);
    let target = fs::read_link(top.join("bin/seven")).unwrap();
    assert_eq!(target.to_str(), Some("../many/7"));
    assert!(top.join("empty").is_dir());
    assert!(fs::symlink_metadata(top.join("passwd")).is_err());
    assert!(fs::symlink_metadata(top.join("socket")).is_err());
    assert_eq!(fs::read_dir(top.join("many")).unwrap().count(), 40);
}

fn json(ended: &Ended) -> Value {
    serde_json::from_str::<Value>(&ended.out).unwrap()["sent"][0].clone()
}

#[test]
fn a_tree_arrives_whole_and_again_only_what_is_new() {
    let place = Place::new();
    let receiver = receive(&place);
    let tree = tree(&place);
    let _socket = UnixListener::bind(place.path("out/tree/socket")).unwrap();
    let to = place.invite();
    let sent = place.run("sender", &["send", &tree, "--to", &to]);
    assert_eq!(sent.code, 0, "{sent:?}");
    assert!(sent.out.contains(": 41 files, "), "{sent:?}");
    assert!(sent.out.contains("; 2 skipped"), "{sent:?}");
    for left_out in [
        "passwd: the symbolic link points out of the tree; it is left out",
        "socket: a socket is not sent; it is left out",
    ] {
        assert!(sent.err.contains(left_out), "{sent:?}");
    }
    check_tree(&place, "tree");

    file(&place, "out/tree/many/new", b"new");
    file(&place, "out/tree/bin/program", b"changed");
    let again = place.run("sender", &["send", &tree, "--json", "--to", &to]);
    again.expect(1, "tree/bin/program exists already and is different");
    let told = json(&again);
    let numbers = |name: &str| told[name].as_u64().unwrap();
    assert_eq!(numbers("files"), 41);
    assert_eq!(numbers("already_there"), 41, "40 files and a link");
    assert_eq!(numbers("transferred_bytes"), 3);
    assert_eq!(numbers("directories"), 4);
    assert_eq!(told["failed"].as_array().unwrap().len(), 1);
    assert_eq!(told["skipped"].as_array().unwrap().len(), 2);
    receiver.end();
}

#[test]
fn what_is_sent_takes_the_place_of_the_old_where_the_receiver_says_so() {
    let place = Place::new();
    let receiver = receive(&place);
    let to = place.invite();
    let old = file(&place, "out/a/data", b"old");
    place
        .run("sender", &["send", &old, "--to", &to])
        .expect(0, "");
    let new = file(&place, "out/b/data", b"new");
    receiver.end();
    let folder = place.path("in");
    let invite = place.path("invite");
    let arguments = [
        "receive",
        folder.to_str().unwrap(),
        "--replace",
        "--listen",
        "127.0.0.1:0",
        "--invite-file",
        invite.to_str().unwrap(),
    ];
    fs::remove_file(&invite).unwrap();
    let _receiver = place.start("receiver", &arguments);
    until("an invite is written", || invite.exists(), String::new);
    place
        .run("sender", &["send", &new, "--to", &to])
        .expect(0, "");
    assert_eq!(fs::read(folder.join("data")).unwrap(), b"new");
}

/// A receiver behind two links, and its sender.
struct Far {
    place: Place,
    receiver: Daemon,
    _neighbour: Neighbour,
}

impl Far {
    fn new() -> Self {
        let (place, neighbour) = (Place::new(), two_links());
        let invite = place.path("invite");
        let mut command = neighbour.command(env!("CARGO_BIN_EXE_hawser"));
        command.arg("--state").arg(place.path("receiver"));
        command.arg("receive").arg(place.folder("in"));
        command.args(["--listen", "10.99.0.1:7443", "--advertise", "10.99.0.1"]);
        command.arg("--invite-file").arg(&invite);
        let receiver = place.launch_command("receiver", command);
        until(
            "an invite is written",
            || invite.exists(),
            || receiver.log(),
        );
        Self {
            place,
            receiver,
            _neighbour: neighbour,
        }
    }

    /// Sends standard input, which the test writes.
    fn send_input(&self, state: &str) -> (Daemon, PipeWriter) {
        let (reader, writer) = pipe().unwrap();
        let to = self.place.invite();
        let arguments = ["send", "-", "--name", "dumps/today", "--to", &to];
        let mut command = self.place.hawser(state, &arguments);
        command.stdin(reader);
        (self.place.launch_command(state, command), writer)
    }

    fn until_more_than(&self, bytes: u64, sender: &Daemon) {
        let log = || sender.log() + &self.receiver.log();
        until("bytes arrive", || received(&self.place) > bytes, log);
    }
}

#[test]
fn a_link_that_is_lost_does_no_harm_to_a_tree_or_to_an_input() {
    let test = "trees::a_link_that_is_lost_does_no_harm_to_a_tree_or_to_an_input";
    in_namespace(test, || {
        let far = Far::new();
        let place = &far.place;
        let content = page(8_000_000);
        let (half, rest) = content.split_at(4_000_000);
        let (mut sender, mut input) = far.send_input("sender");
        input.write_all(half).unwrap();
        far.until_more_than(3_000_000, &sender);
        ip("link set dsl down");
        input.write_all(rest).unwrap();
        drop(input);
        assert_eq!(sender.wait(), Some(0), "{}", sender.log());
        assert!(fs::read(place.path("in/dumps/today")).unwrap() == content);

        ip("link set dsl up");
        ip("route add default via 10.1.0.1 dev dsl metric 100");
        let tree = tree(place);
        let large = page(LARGE);
        file(place, "out/tree/large", &large);
        let before = received(place);
        let to = place.invite();
        let mut sender = place.launch("sender", &["send", &tree, "--name", "x/y", "--to", &to]);
        far.until_more_than(before + 5_000_000, &sender);
        ip("link set lte down");
        assert_eq!(sender.wait(), Some(0), "{}", sender.log());
        check_tree(place, "x/y");
        assert!(fs::read(place.path("in/x/y/large")).unwrap() == large);
    });
}

#[test]
fn a_tree_whose_sender_is_killed_goes_on_file_by_file() {
    let place = Place::new();
    let receiver = receive(&place);
    let tree = tree(&place);
    let large = page(LARGE);
    file(&place, "out/tree/large", &large);
    let to = place.invite();
    let sender = place.launch("sender", &["send", &tree, "--to", &to]);
    let moving = || received(&place) > 5_000_000;
    until("bytes arrive", moving, || sender.log() + &receiver.log());
    sender.kill();
    let sent = place.run("sender", &["send", &tree, "--json", "--to", &to]);
    assert_eq!(sent.code, 0, "{sent:?}");
    let transferred = json(&sent)["transferred_bytes"].as_u64().unwrap();
    assert!(transferred < LARGE as u64, "nothing was resumed: {sent:?}");
    check_tree(&place, "tree");
    assert!(fs::read(place.path("in/tree/large")).unwrap() == large);
    assert_eq!(
        fs::read_dir(place.path("in/tree")).unwrap().count(),
        4,
        "no unfinished file is left"
    );
}

#[test]
fn an_input_is_not_resumed_and_its_sender_says_so() {
    let test = "trees::an_input_is_not_resumed_and_its_sender_says_so";
    in_namespace(test, || {
        let far = Far::new();
        let (mut sender, mut input) = far.send_input("sender");
        input.write_all(&page(1_000_000)).unwrap();
        far.until_more_than(900_000, &sender);
        let Far {
            place, receiver, ..
        } = far;
        receiver.end();
        assert_eq!(sender.wait(), Some(1));
        let said = "standard input cannot be resumed";
        assert!(sender.log().contains(said), "{}", sender.log());
        let left = fs::read_dir(place.path("in/dumps")).unwrap().count();
        assert_eq!(left, 0, "nothing of it is kept");
    });
}

#[test]
fn an_input_that_is_turned_away_unread_waits_for_its_turn() {
    let place = Place::new();
    let receiver = receive(&place);
    let to = place.invite();
    let send = |log: &str| {
        let (reader, writer) = pipe().unwrap();
        let mut command = place.hawser("sender", &["send", "-", "--name", "dump", "--to", &to]);
        command.stdin(reader);
        (place.launch_command(log, command), writer)
    };
    let (mut first, mut input) = send("first");
    input.write_all(&page(1_000_000)).unwrap();
    let arrives = || received(&place) > 900_000;
    until("bytes arrive", arrives, || first.log() + &receiver.log());
    let (mut second, mut whole) = send("second");
    whole.write_all(b"the second").unwrap();
    drop(whole);
    let waits = || second.log().contains("retrying a transfer");
    until("the second waits", waits, || second.log());
    // The first is given up: nothing of it stays, and its name is free.
    first.signal(Signal::TERM);
    assert_eq!(first.wait(), Some(1), "{}", first.log());
    assert_eq!(second.wait(), Some(0), "{}", second.log());
    assert_eq!(fs::read(place.path("in/dump")).unwrap(), b"the second");
}

#[test]
fn a_receiver_keeps_its_own_state_from_senders() {
    let place = Place::new();
    let around = place.path("").to_str().unwrap().to_owned();
    place
        .run("receiver", &["receive", &around])
        .expect(1, "Hawser keeps its own state in");
    let within = place.path("receiver/receive").to_str().unwrap().to_owned();
    place
        .run("receiver", &["receive", &within])
        .expect(1, "Hawser keeps its own state in");
}

#[test]
fn standard_input_needs_a_name_and_fills_a_file() {
    let place = Place::new();
    let _receiver = receive(&place);
    let to = place.invite();
    let nameless = place.run("sender", &["send", "-", "--to", &to]);
    nameless.expect(
        2,
        "standard input has no name: give it one with --name NAME",
    );
    for bad in ["../up", "/up", "a/", ""] {
        let refused = place.run("sender", &["send", "-", "--name", bad, "--to", &to]);
        refused.expect(2, "--name");
    }
    // The tests' standard input is empty.
    let empty = ["send", "-", "--name", "empty", "--to", &to];
    let sent = place.run("sender", &empty);
    assert_eq!(sent.code, 0, "{sent:?}");
    assert_eq!(fs::read(place.path("in/empty")).unwrap(), b"");
    place
        .run("sender", &empty)
        .expect(1, "empty exists already");
}

const LARGE: usize = 128 << 20;
