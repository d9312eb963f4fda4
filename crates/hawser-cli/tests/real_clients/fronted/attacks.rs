//! Impostor servers, and servers that compare their knowledge of a client.

use std::collections::BTreeSet;
use std::fs;

use super::{PLAIN, PROXIED, Stage};
use crate::network::SERVER;
use crate::program::until;

#[test]
fn an_enrolled_host_is_never_taken_for_a_discovered_one() {
    let test = "an_enrolled_host_is_never_taken_for_a_discovered_one";
    let Some(stage) = Stage::new(test) else {
        return;
    };
    let (listen, invite) = (format!("{SERVER}:7443"), stage.place.path("invite"));
    let enrolling = ["--listen", &listen, "--invite-file"];
    let peer = stage.serve_with(&[&enrolling[..], &[invite.to_str().unwrap()]].concat());
    let is_there = || invite.exists();
    until("there is an invite", is_there, || peer.log());
    let up = stage.up(&["--peer", &stage.place.invite()]);
    let is_enrolled = || up.log().contains("enrolled with the peer");
    until("it is enrolled", is_enrolled, || up.log());
    up.end();
    peer.end();

    // Another host takes its address, and has what it takes to be discovered.
    fs::remove_file(stage.place.path("server/key")).unwrap();
    let elsewhere = format!("address add {ELSEWHERE}/32 dev lo");
    stage.network.server.ip(&elsewhere);
    let (server, up) = (stage.serve(), stage.up(&[]));
    let connect = |address| {
        let before = stage.front("connected");
        let done = stage.download_from(&up, (address, PLAIN), "little");
        assert_eq!(done.out(), b"x", "{}", up.log());
        stage.front("connected") > before
    };
    stage.nginx.put("little", b"x");
    connect(SERVER);
    // With a client that knows no servers, it is discovered.
    until("one is bonded", || connect(ELSEWHERE), || up.log());
    for _ in 0..3 {
        assert!(!connect(SERVER), "{}", up.log());
    }
    up.end();
    server.end();
}

#[test]
fn each_server_sees_another_key_and_the_same_one_while_it_is_pinned() {
    let test = "each_server_sees_another_key_and_the_same_one_while_it_is_pinned";
    let Some(stage) = Stage::new(test) else {
        return;
    };
    let server = stage.serve();
    let seen = || -> BTreeSet<String> {
        let log = server.log();
        let begun = log.lines().filter(|it| it.contains("a session has begun"));
        let keys = begun.filter_map(|line| line.split_once("peer=")?.1.split(' ').next());
        keys.map(str::to_owned).collect()
    };
    let bond = |ports: &[u16]| {
        let up = stage.up(&[]);
        ports.iter().for_each(|port| stage.until_bonded(&up, *port));
        up.end();
    };
    // Two ports may be two servers.
    bond(&[PLAIN, PROXIED]);
    let first = seen();
    assert_eq!(first.len(), 2, "{}", server.log());
    bond(&[PLAIN]);
    assert_eq!(seen(), first, "{}", server.log());
    fs::remove_file(stage.place.path("client/servers.json")).unwrap();
    bond(&[PLAIN]);
    assert_eq!(seen().len(), 3, "{}", server.log());
    server.end();
}

/// Another address of the server.
const ELSEWHERE: &str = "203.0.113.2";
