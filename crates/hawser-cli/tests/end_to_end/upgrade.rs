//! A new process takes over from a daemon, and open connections continue.

mod directory;
mod fronted;
mod joins;
mod lost_link;
mod names;
mod router;
mod traffic;

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::Instant;

use hawser_skip::namespace::in_namespace_of_root;

use super::internet::{Internet, SERVER};
use super::program::{Daemon, Place, until};
use traffic::{Traffic, Way};

/// A machine with captured connections and packets, and its gateway, are both replaced while a
/// connection, new connections and datagrams go over them. In between, a link is lost and returns,
/// so that its channels join a session of the old process through the new one's port.
#[test]
fn streams_and_packets_go_on_while_both_ends_are_replaced() {
    let test = "upgrade::streams_and_packets_go_on_while_both_ends_are_replaced";
    in_namespace_of_root(test, || {
        let Some(net) = Internet::captured(test) else {
            return;
        };
        for transport in ["sctp", "tcp"] {
            let gateway = net.serve();
            let invite = net.place.invite();
            let client = net.up(&["--gateway", &invite, "--transport", transport]);
            let log = || format!("{}\n{}", client.log(), gateway.log());
            let traffic = Traffic::begin(&net.place, Way::Ordinary(SERVER));
            traffic.until_moved(20, log);

            upgrade(&net.place, "gateway", &gateway);
            net.gateway.ip("link set lte down");
            let by_lte = || standing(net.gateway.command("ss"), None, BY_LTE);
            until("the link is lost", || !by_lte(), log);
            net.gateway.ip("link set lte up");
            until("the link is back", by_lte, log);
            traffic.until_moved(20, log);
            upgrade(&net.place, "client", &client);
            traffic.until_moved(20, log);

            println!("{transport}: {}", traffic.end(log));
            until_alone(&net.place, "gateway", log);
            until_alone(&net.place, "client", log);
            client.end();
            gateway.end();
        }
    });
}

#[test]
fn a_new_process_that_fails_disturbs_nothing() {
    let (place, config) = (Place::new(), "client.toml");
    let gateway = place.serve();
    let file = place.path(config);
    std::fs::write(&file, "").unwrap();
    let with = ["--config", file.to_str().unwrap()];
    let invite = place.invite();
    let up = [
        "up",
        "--listen",
        "127.0.0.1:0",
        "--link",
        "lo",
        "--gateway",
        &invite,
    ];
    let client = place.start("client", &[&with[..], &up].concat());
    let listen = client.listen(&place);
    std::fs::write(&file, "no = \"setting\"\n").unwrap();
    let refused = place.run("client", &["upgrade"]);
    refused.expect(1, "the new process has ended (exit status: 2)");
    assert_eq!(
        place.status("client").unwrap()["process_id"],
        client.process()
    );
    assert_eq!(client.listen(&place), listen);
    // Once it is right again, it works.
    std::fs::write(&file, "").unwrap();
    upgrade(&place, "client", &client);
    assert_eq!(client.listen(&place), listen, "the port is the same");
    client.end();
    gateway.end();
}

/// A user who started a daemon asks it to end: both processes end, despite open connections.
#[test]
fn an_old_process_that_is_asked_to_end_ends_the_new_one_as_well() {
    let place = Place::new();
    let gateway = place.serve();
    let client = place.up("client", &["--gateway", &place.invite()]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut open = TcpStream::connect(client.listen(&place).unwrap()).unwrap();
    let request = format!(
        "CONNECT {} HTTP/1.1\r\n\r\n",
        listener.local_addr().unwrap()
    );
    open.write_all(request.as_bytes()).unwrap();
    let (mut far, _) = listener.accept().unwrap();
    far.write_all(b"here").unwrap();
    let mut heard = Vec::new();
    while !heard.ends_with(b"here") {
        let mut some = [0; 100];
        let count = open.read(&mut some).unwrap();
        assert!(count > 0, "{heard:?}");
        heard.extend_from_slice(&some[..count]);
    }
    for (state, daemon) in [("gateway", &gateway), ("client", &client)] {
        upgrade(&place, state, daemon);
        let is_told = || place.status(state).unwrap()["predecessor"]["open"] == 1;
        until("the old process tells what is open", is_told, || {
            daemon.log()
        });
        let again = place.run(state, &["upgrade"]);
        again.expect(
            1,
            "the process from before the last upgrade still serves its open streams and \
             connections (1)",
        );
        if state == "gateway" {
            expect_left(
                &place,
                &format!("{}", listener.local_addr().unwrap()),
                daemon,
            );
        }
    }
    client.end();
    assert!(place.status("client").is_none(), "the new one has ended");
    gateway.end();
    assert!(place.status("gateway").is_none(), "the new one has ended");
}

#[test]
fn what_can_not_be_handed_over_is_told() {
    let place = Place::new();
    let gateway = place.serve();
    let invite = place.invite();
    let client = place.up("client", &["--gateway", &invite]);
    let by_hand = place.run("third", &["--taking-over", "up"]);
    by_hand.expect(1, "--taking-over: only hawser itself uses this flag");
    let none = place.run("nowhere", &["upgrade"]);
    none.expect(1, "no hawser daemon runs");
    client.end();
    gateway.end();
}

/// Expects that the client shows the session that its gateway asked it to leave, with the one open
/// stream.
fn expect_left(place: &Place, destination: &str, daemon: &Daemon) {
    let left = || {
        let status = place.status("client")?;
        let sessions = status["sessions"].as_array()?.clone();
        assert_eq!(status["session_count"], sessions.len());
        sessions.into_iter().find(|it| it["is_left"] == true)
    };
    until(
        "the client has left the session",
        || left().is_some(),
        || daemon.log(),
    );
    let left = left().unwrap();
    assert_eq!(left["streams"][0]["destination"], destination, "{left}");
    assert_eq!(left["paths"][0]["link"], "lo", "{left}");
    let id = left["id"].as_str().unwrap();
    for command in ["status", "streams", "why"] {
        let shown = place.run("client", &[command]).out;
        let of_left = shown.find(id).map(|at| &shown[at..]);
        let is_marked = of_left.is_some_and(|text| text.contains("another session has replaced"));
        assert!(is_marked, "{command}: {shown}");
        assert!(shown.contains(destination), "{command}: {shown}");
    }
}

/// Has a daemon replaced.
fn upgrade(place: &Place, state: &str, daemon: &Daemon) {
    let begun = Instant::now();
    let ended = place.run(state, &["upgrade"]);
    assert_eq!(ended.code, 0, "{ended:?} {}", daemon.log());
    println!("{state} was replaced in {:?}", begun.elapsed());
    let status = place.status(state).unwrap();
    assert_ne!(status["process_id"], daemon.process(), "{status}");
}

/// Waits until no old process serves any more.
fn until_alone(place: &Place, state: &str, log: impl Fn() -> String) {
    let is_alone = || {
        let status = place.status(state);
        status.is_some_and(|status| status["predecessor"].is_null())
    };
    until("the old process has nothing", is_alone, log);
}

/// Whether connections matching `filter` exist, according to `ss`; with a daemon, only those of its
/// first process.
fn standing(mut ss: Command, daemon: Option<&Daemon>, filter: &[&str]) -> bool {
    ss.args(["-Htnp", "state", "established"]).args(filter);
    let said = ss.output().unwrap();
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let process = daemon.map(|it| format!("pid={},", it.process()));
    said.lines()
        .any(|line| process.as_ref().is_none_or(|it| line.contains(it)))
}

/// Filter for connections at the gateway over the client's second link.
const BY_LTE: &[&str] = &["dst", "10.2.0.2"];
