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

/// The port of Hawser's own listener.
const HAWSER_PORT: u16 = 7443;
