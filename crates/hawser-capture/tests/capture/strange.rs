//! Options that no client of ours sends, and segments that no kernel does.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};

use hawser_capture::{Announcement, Bonds, Outcome};
use hawser_skip::wire::{ByHand, Connection, Flag, Segment};
use hawser_wire::{Offer, OfferForm, SynOption};
use socket2::{Domain, Socket, Type};

use crate::bonds::accepted;
use crate::meeting::*;

#[test]
fn an_option_that_cannot_be_read_leaves_a_connection_to_the_service() {
    let test = "strange::an_option_that_cannot_be_read_leaves_a_connection_to_the_service";
    let Some((meeting, hand)) = by_hand(test) else {
        return;
    };
    let (server, service, _hawser) = meeting.diverted();
    let whole = |paper| question(paper, 42);
    let broken: Vec<Vec<u8>> = vec![
        // Invalid lengths: zero, too short, too long, and beyond the end.
        vec![254, 0, 0, 0],
        vec![254, 1, 0, 0],
        vec![254, 2, 1, 1],
        [&[254, 9], &whole(false)[2..9], &[1, 1, 1]].concat(),
        [&[254, 11], &whole(false)[2..], &[1, 1]].concat(),
        [&[254, 7], &whole(true)[2..7], &[1]].concat(),
        [&[254, 40], &whole(true)[2..]].concat(),
        // Invalid digits, no interfaces, another version, other flags, another experiment.
        b"\xfe\x0802004x".to_vec(),
        b"\xfe\x08\x00\x02\x00\x04\x02\x01".to_vec(),
        b"\xfe\x08000042".to_vec(),
        b"\xfe\x0aHW\x11\x00\x01\x02\x03\x04\x00\x00".to_vec(),
        b"\xfe\x0aHW\x21\x02\x01\x02\x03\x04\x00\x00".to_vec(),
        b"\xfe\x0aHW\x13\x02\x01\x02\x03\x04\x00\x00".to_vec(),
        b"\xfe\x0aXX\x11\x02\x01\x02\x03\x04\x00\x00".to_vec(),
        // Another experiment's option alone, and one that fills the header.
        b"\xfd\x0aHW\x11\x02\x01\x02\x03\x04\x00\x00".to_vec(),
        [&[254, 40][..], &[0xff; 38]].concat(),
    ];
    let mut ports = 10_000..;
    for (from, to) in strangers().into_iter().zip(servers()) {
        for options in &broken {
            let from = SocketAddr::new(from, ports.next().unwrap());
            let connection = hand.connect(from, to, options);
            assert_eq!(connection.answer.option(), None, "{options:02x?}");
            talk(connection, &service);
        }
        // The same without a fault.
        for paper in [false, true] {
            let from = SocketAddr::new(from, ports.next().unwrap());
            let connection = hand.connect(from, to, &whole(paper));
            assert!(connection.answer.option().is_some());
        }
    }
    assert_eq!(server.counts().unwrap().diverted, 4);
}

#[test]
fn connections_with_one_number_are_answered_each_by_itself() {
    let test = "strange::connections_with_one_number_are_answered_each_by_itself";
    let Some((meeting, hand)) = by_hand(test) else {
        return;
    };
    let (server, _service, hawser) = meeting.diverted();
    for (from, to) in strangers().into_iter().zip(servers()) {
        for paper in [false, true] {
            let port = if paper { 20_000 } else { 30_000 };
            let open: Vec<Connection<'_>> = (port..port + 3)
                .map(|port| hand.connect(SocketAddr::new(from, port), to, &question(paper, 7)))
                .collect();
            for connection in open {
                let answer = SynOption::find(&connection.answer.options)
                    .unwrap()
                    .unwrap();
                assert!(answer.bond);
                talk(connection, &hawser[usize::from(to.is_ipv6())]);
            }
        }
    }
    assert_eq!(server.counts().unwrap().diverted, 12);
}

#[test]
fn a_syn_that_is_sent_again_and_one_that_is_replayed_make_no_second_connection() {
    let test =
        "strange::a_syn_that_is_sent_again_and_one_that_is_replayed_make_no_second_connection";
    let Some((meeting, hand)) = by_hand(test) else {
        return;
    };
    let (server, service, hawser) = meeting.diverted();
    let from = SocketAddr::new(strangers()[0], 40_000);
    let to = servers()[0];
    let connection = hand.connect(from, to, &question(false, 7));
    let syn = Segment {
        sequence: connection.answer.acknowledgement.wrapping_sub(1),
        options: question(false, 7),
        ..Segment::new(from, to, &[Flag::Syn])
    };
    hand.send(&syn);
    talk(connection, &hawser[0]);
    assert_eq!(server.counts().unwrap().diverted, 1);
    for listener in [&hawser[0], &service] {
        listener.set_nonblocking(true).unwrap();
        let none = listener.accept().unwrap_err();
        assert_eq!(none.kind(), std::io::ErrorKind::WouldBlock);
    }
}

#[test]
fn beside_fast_open_it_goes_where_there_is_room() {
    let test = "strange::beside_fast_open_it_goes_where_there_is_room";
    let Some(mut meeting) = Meeting::new(test) else {
        return;
    };
    let (server, service) = meeting.fronted(Bonds::Refused);
    let switch = || std::fs::write("/proc/sys/net/ipv4/tcp_fastopen", "3").unwrap();
    // The thread is in the client's namespace.
    switch();
    meeting.ground.at_server(switch);
    tcp_option(&service, libc::TCP_FASTOPEN, 16);
    let to = servers()[0];
    let says = Some(Announcement::There);
    meeting.client.set_everywhere(says).unwrap();
    let connect = || {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        tcp_option(&socket, libc::TCP_FASTOPEN_CONNECT, 1);
        meeting.wire.segments(PORT);
        socket.connect(&to.into()).unwrap();
        // With a cookie the SYN leaves only now.
        let mut near = TcpStream::from(socket);
        near.write_all(b"question").unwrap();
        let mut far = accepted(&service);
        far.read_exact(&mut [0; 8]).unwrap();
        meeting.wire.segments(PORT)
    };
    // The first one asks for a cookie, which leaves the answer no room.
    let segments = connect();
    assert!(segments[0].option().is_some());
    assert_eq!(segments[1].option(), None);
    // The next one has data in its SYN, and its cookie leaves no room there.
    let segments = connect();
    assert!(!segments[0].payload.is_empty(), "{segments:?}");
    assert_eq!((segments[0].option(), segments[1].option()), (None, None));
    assert_eq!(meeting.next().outcome, Outcome::Plain);
    let counts = (meeting.client.counts().unwrap(), server.counts().unwrap());
    assert_eq!((counts.0.no_room, counts.1.no_room), (1, 1));
}

/// Returns a meeting whose client sends by hand, with addresses that the server answers.
fn by_hand(test: &str) -> Option<(Meeting, ByHand)> {
    let meeting = Meeting::new(test)?;
    meeting.ground.ip("route add 198.18.0.0/15 via 10.99.1.2");
    meeting.ground.ip("-6 route add 2001:2::/48 via fd99:1::2");
    Some((meeting, ByHand::new().unwrap()))
}

/// Addresses for benchmarks (RFC 2544, RFC 5180), by family.
fn strangers() -> [IpAddr; 2] {
    ["198.18.0.1", "2001:2::1"].map(|it| it.parse().unwrap())
}

/// A SYN's option that wants a bond.
fn question(paper: bool, connection: u32) -> Vec<u8> {
    let (form, version) = if paper {
        (OfferForm::Paper, 0)
    } else {
        (OfferForm::Binary, SynOption::VERSION)
    };
    let option = SynOption {
        offer: Offer {
            form,
            version,
            interfaces: 2,
            key_hint: None,
        },
        bond: true,
        connection,
    };
    option.encode().unwrap().as_ref().to_vec()
}

/// Shows that a connection by hand belongs to the listener.
fn talk(mut connection: Connection<'_>, listener: &TcpListener) {
    connection.say(b"question");
    let mut far = accepted(listener);
    let mut heard = [0; 8];
    far.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"question");
    far.write_all(b"answered").unwrap();
    drop(far);
    assert_eq!(connection.hear(), b"answered");
}
