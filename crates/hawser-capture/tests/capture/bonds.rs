//! Connections that want a bond.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use hawser_capture::{Announcement, Bonds, Outcome};

use crate::ground::{PATIENCE, eventually};
use crate::meeting::*;

#[test]
fn what_wants_a_bond_is_given_to_hawser_on_the_same_port() {
    let test = "bonds::what_wants_a_bond_is_given_to_hawser_on_the_same_port";
    let Some(mut meeting) = Meeting::new(test) else {
        return;
    };
    let listen = |port| TcpListener::bind(("::", port)).unwrap();
    let bonds = Bonds::Diverted(HAWSER_PORT);
    let (mut server, service) = meeting.fronted(bonds);
    let hawser = meeting.ground.at_server(move || listen(HAWSER_PORT));
    let server = meeting.ground.at_server(move || {
        server.divert_on("west").unwrap();
        server
    });
    for to in servers() {
        for says in [Announcement::Bond, Announcement::BondAsInPaper] {
            let (near, outcome) = meeting.connect_saying(says, "west", to);
            assert!(
                matches!(outcome, Outcome::Answered(it) if it.bond),
                "{outcome:?}"
            );
            let far = accepted(&hawser);
            assert_eq!(far.local_addr().unwrap().port(), PORT);
            exchange(near, far);
        }
        // What only says that bonding is there, and what comes by another way, is the service's.
        for (says, link) in [
            (Announcement::There, "west"),
            (Announcement::Bond, "east"),
            (Announcement::BondAsInPaper, "east"),
        ] {
            let (near, outcome) = meeting.connect_saying(says, link, to);
            let says_bond = matches!(outcome, Outcome::Answered(it) if it.bond);
            assert!(!says_bond, "{outcome:?}");
            exchange(near, accepted(&service));
        }
    }
    // Without Hawser's listener, too.
    drop(hawser);
    let (near, outcome) = meeting.connect_saying(Announcement::Bond, "west", servers()[0]);
    assert!(
        matches!(outcome, Outcome::Answered(it) if !it.bond),
        "{outcome:?}"
    );
    exchange(near, accepted(&service));
    drop(server);
    let (near, outcome) = meeting.connect_saying(Announcement::Bond, "west", servers()[0]);
    assert_eq!(outcome, Outcome::Plain);
    exchange(near, accepted(&service));
}

fn accepted(listener: &TcpListener) -> TcpStream {
    listener.set_nonblocking(true).unwrap();
    let mut stream = None;
    eventually("it arrives", || {
        stream = stream.take().or_else(|| listener.accept().ok());
        stream.is_some()
    });
    let (stream, _) = stream.unwrap();
    stream.set_nonblocking(false).unwrap();
    stream
}

fn exchange(mut near: TcpStream, mut far: TcpStream) {
    let mut heard = [0; 8];
    for stream in [&near, &far] {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
    }
    near.write_all(b"question").unwrap();
    far.read_exact(&mut heard).unwrap();
    far.write_all(b"answered").unwrap();
    near.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"answered");
}

#[test]
fn with_syn_cookies_no_bond_is_promised() {
    let Some(mut meeting) = Meeting::new("bonds::with_syn_cookies_no_bond_is_promised") else {
        return;
    };
    let (mut server, _service) = meeting.fronted(Bonds::Diverted(HAWSER_PORT));
    let (_server, _hawser) = meeting.ground.at_server(move || {
        std::fs::write("/proc/sys/net/ipv4/tcp_syncookies", "2").unwrap();
        server.divert_on("west").unwrap();
        let hawser = TcpListener::bind(("::", HAWSER_PORT)).unwrap();
        (server, hawser)
    });
    for to in servers() {
        let (socket, connected) = meeting.try_to_connect(Announcement::Bond, "west", to);
        let outcome = meeting.next().outcome;
        assert!(
            matches!(outcome, Outcome::Answered(it) if !it.bond),
            "{outcome:?}"
        );
        // The service has sent no cookie itself, and takes none.
        let ended = connected.and_then(|()| TcpStream::from(socket).read(&mut [0; 8]));
        let reset = std::io::ErrorKind::ConnectionReset;
        assert_eq!(ended.map_err(|error| error.kind()), Err(reset));
    }
}

/// The port of Hawser's own listener.
const HAWSER_PORT: u16 = 7443;
