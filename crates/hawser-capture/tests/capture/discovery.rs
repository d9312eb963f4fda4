//! Capability in the handshake, between two namespaces.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use hawser_capture::{Announcement, Bonds, CaptureError, Discovery, Outcome};
use hawser_skip::wire::{Flag, Segment};
use hawser_wire::{Offer, OfferForm, SynOption};
use socket2::{Domain, Protocol, Socket, Type};

use crate::ground::*;
use crate::meeting::*;
use crate::stage::turns;

#[test]
fn a_server_that_can_bond_says_so_in_the_handshake_and_nowhere_else() {
    let test = "discovery::a_server_that_can_bond_says_so_in_the_handshake_and_nowhere_else";
    let Some(mut meeting) = Meeting::new(test) else {
        return;
    };
    let (server, _listener) = meeting.fronted(Bonds::Refused);
    meeting
        .client
        .set_everywhere(Some(Announcement::There))
        .unwrap();
    for to in servers() {
        let segments = meeting.connect(to);
        assert_usual(&segments);
        let syn = segments[0].option().unwrap();
        assert_eq!(&syn[..6], b"\xfe\x0aHW\x10\x02");
        let answer = segments[1].option().unwrap();
        assert_eq!(&answer[..6], b"\xfe\x12HW\x10\x03");
        assert_eq!(answer[6..10], syn[6..10], "the connection's number");
        assert_eq!(answer[10..], HINT.0);
        assert_eq!(segments[2].option(), None);
        let learnt = meeting.next();
        assert_eq!((learnt.to, learnt.link), (to, None));
        let offer = Offer {
            form: OfferForm::Binary,
            version: SynOption::VERSION,
            interfaces: 3,
            key_hint: Some(HINT),
        };
        assert_eq!(learnt.heard().offer, Some(offer));
    }
    let counts = (meeting.client.counts().unwrap(), server.counts().unwrap());
    assert_eq!((counts.0.asked, counts.0.no_room), (2, 0));
    assert_eq!((counts.1.answered, counts.1.unanswered), (2, 0));
}

#[test]
fn in_the_papers_form_the_option_is_six_digits() {
    let Some(mut meeting) = Meeting::new("discovery::in_the_papers_form_the_option_is_six_digits")
    else {
        return;
    };
    let (_server, _listener) = meeting.fronted(Bonds::Here);
    let says = Some(Announcement::BondAsInPaper);
    meeting.client.set_everywhere(says).unwrap();
    for to in servers() {
        let segments = meeting.connect(to);
        assert_usual(&segments);
        let syn = segments[0].option().unwrap();
        assert_eq!(&syn[..4], b"\xfe\x0802", "two interfaces");
        assert!(syn[4..].iter().all(u8::is_ascii_digit), "{syn:02x?}");
        let answer = segments[1].option().unwrap();
        assert_eq!(&answer[..4], b"\xfe\x0803", "three");
        for (ours, theirs) in syn[4..].iter().zip(&answer[4..]) {
            assert_eq!(ours - b'0', b'9' - theirs);
        }
        assert_read_by_tshark(&segments);
        let Outcome::Answered(answer) = meeting.next().outcome else {
            panic!("no answer");
        };
        assert_eq!((answer.offer.interfaces, answer.bond), (3, true));
    }
}

/// Compares with the result of tshark, if that is installed.
fn assert_read_by_tshark(segments: &[Segment]) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    // The file's header: version 2.4, frames of 64 KiB at most, Ethernet.
    let numbers = [0xa1b2_c3d4_u32, 2 | 4 << 16, 0, 0, 65_536, 1];
    let mut bytes: Vec<u8> = numbers.map(u32::to_ne_bytes).concat();
    for segment in segments {
        let length = u32::try_from(segment.frame.len()).unwrap();
        bytes.extend([0, 0, length, length].map(u32::to_ne_bytes).concat());
        bytes.extend(&segment.frame);
    }
    file.write_all(&bytes).unwrap();
    let mut tshark = Command::new("tshark");
    tshark.arg("-r").arg(file.path());
    tshark.args(["-T", "fields", "-e", "tcp.options"]);
    match tshark.stderr(Stdio::null()).output() {
        Ok(output) => {
            assert!(output.status.success());
            let text = String::from_utf8(output.stdout).unwrap();
            for (line, segment) in text.lines().zip(segments) {
                let hex: String = (segment.option().unwrap_or_default().iter())
                    .map(|byte| format!("{byte:02x}"))
                    .collect();
                let line = line.replace(':', "");
                assert_eq!(line.contains("fe08"), !hex.is_empty(), "{line}");
                assert!(line.contains(&hex), "{line}");
            }
            assert_eq!(text.lines().count(), segments.len());
        }
        Err(error) => hawser_skip::skip(
            "capture::discovery::in_the_papers_form_the_option_is_six_digits",
            &format!("the bytes were not read by tshark: {error}"),
        ),
    }
}

#[test]
fn a_connection_that_wants_a_bond_hears_whether_it_can_have_one() {
    let test = "discovery::a_connection_that_wants_a_bond_hears_whether_it_can_have_one";
    let Some(mut meeting) = Meeting::new(test) else {
        return;
    };
    let to = servers()[0];
    for bonds in [Bonds::Here, Bonds::Refused] {
        let (server, listener) = meeting.fronted(bonds);
        for says in [Announcement::Bond, Announcement::BondAsInPaper] {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            meeting.client.announce_on(&socket, Some(says)).unwrap();
            socket.connect(&to.into()).unwrap();
            match (meeting.next().outcome, bonds, says) {
                (Outcome::Answered(answer), Bonds::Here, _) => assert!(answer.bond),
                (Outcome::Answered(answer), _, Announcement::Bond) => assert!(!answer.bond),
                (Outcome::Plain, Bonds::Refused, Announcement::BondAsInPaper) => {}
                other => panic!("{other:?}"),
            }
        }
        meeting.wire.segments(PORT);
        // An announcement on a socket counts once, and not for other sockets.
        assert_eq!(meeting.connect(to)[0].option(), None);
        // With its port free, the server is gone as well.
        drop((server, listener));
    }
}

#[test]
fn hosts_without_it_notice_nothing() {
    let Some(mut meeting) = Meeting::new("discovery::hosts_without_it_notice_nothing") else {
        return;
    };
    // A client without Hawser, at a server that has it.
    let (server, listener) = meeting.fronted(Bonds::Here);
    for to in servers() {
        let segments = meeting.connect(to);
        assert_usual(&segments);
        assert!(segments.iter().all(|it| it.option().is_none()));
    }
    let counts = server.counts().unwrap();
    assert_eq!((counts.answered, counts.unanswered), (0, 2));
    drop((server, listener));
    // A client with Hawser, at a server without.
    let _listener = meeting.legacy();
    meeting
        .client
        .set_everywhere(Some(Announcement::There))
        .unwrap();
    for to in servers() {
        let segments = meeting.connect(to);
        assert_usual(&segments);
        assert!(segments[0].option().is_some());
        assert_eq!(segments[1].option(), None);
        let learnt = meeting.next();
        assert_eq!((learnt.to, learnt.outcome), (to, Outcome::Plain));
    }
}

#[test]
fn data_has_no_option() {
    let Some(mut meeting) = Meeting::new("discovery::data_has_no_option") else {
        return;
    };
    let (_server, listener) = meeting.fronted(Bonds::Refused);
    meeting
        .client
        .set_everywhere(Some(Announcement::There))
        .unwrap();
    for to in servers() {
        meeting.wire.segments(PORT);
        let mut near = TcpStream::connect(to).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        let mut heard = [0; 8];
        for _ in 0..10 {
            near.write_all(b"question").unwrap();
            far.read_exact(&mut heard).unwrap();
            far.write_all(b"answered").unwrap();
            near.read_exact(&mut heard).unwrap();
        }
        let segments = meeting.wire.segments(PORT);
        let data = segments.iter().filter(|it| !it.payload.is_empty());
        assert!(data.count() >= 20);
        let with_option = segments.iter().filter(|it| it.option().is_some());
        assert!(with_option.clone().all(|it| it.has(Flag::Syn)));
        assert_eq!(with_option.count(), 2);
        assert!(matches!(meeting.next().outcome, Outcome::Answered(_)));
    }
}

#[test]
fn a_port_that_is_no_longer_fronted_answers_no_more() {
    let test = "discovery::a_port_that_is_no_longer_fronted_answers_no_more";
    let Some(mut meeting) = Meeting::new(test) else {
        return;
    };
    let (mut server, _listener) = meeting.fronted(Bonds::Refused);
    meeting
        .client
        .set_everywhere(Some(Announcement::There))
        .unwrap();
    let to = servers()[0];
    assert!(meeting.connect(to)[1].option().is_some());
    server.set_fronted(&[]).unwrap();
    assert_eq!(meeting.connect(to)[1].option(), None);
    drop(server);
    assert_usual(&meeting.connect(to));
}

#[test]
fn a_listener_that_is_older_than_the_programs_answers_too() {
    let test = "discovery::a_listener_that_is_older_than_the_programs_answers_too";
    let Some(mut meeting) = Meeting::new(test) else {
        return;
    };
    meeting
        .client
        .set_everywhere(Some(Announcement::There))
        .unwrap();
    let _listener = meeting.legacy();
    let reached = move |server: &Discovery| match server.reach_listeners() {
        Err(error @ CaptureError::NoIterator(_)) => {
            hawser_skip::skip(&format!("capture::{test}"), &error.to_string());
            false
        }
        reached => {
            reached.unwrap();
            true
        }
    };
    for ports in [vec![], vec![fronted_port(Bonds::Refused)]] {
        let is_fronted = !ports.is_empty();
        let Some(_server) = meeting.ground.at_server(move || {
            let mut server = started().unwrap();
            server.set_fronted(&ports).unwrap();
            reached(&server).then_some(server)
        }) else {
            return;
        };
        for to in servers() {
            let segments = meeting.connect(to);
            assert_usual(&segments);
            assert_eq!(segments[1].option().is_some(), is_fronted);
            assert_eq!(segments[2].option(), None);
        }
    }
}

#[test]
fn values_that_no_option_can_say_are_refused() {
    let Some(mut meeting) = Meeting::new("discovery::values_that_no_option_can_say_are_refused")
    else {
        return;
    };
    for interfaces in [0, 100] {
        let error = meeting.client.set_interfaces(interfaces).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("TCP option 254 with {interfaces} interfaces")
        );
    }
}

#[test]
fn with_syn_cookies_the_answer_is_the_same() {
    let Some(mut meeting) = Meeting::new("discovery::with_syn_cookies_the_answer_is_the_same")
    else {
        return;
    };
    meeting.ground.at_server(|| {
        // SYN cookies always, and not only when the queue is full.
        std::fs::write("/proc/sys/net/ipv4/tcp_syncookies", "2").unwrap();
    });
    let (_server, listener) = meeting.fronted(Bonds::Here);
    for to in servers() {
        let says = Announcement::Bond;
        let (mut near, outcome) = meeting.connect_saying(says, "west", to);
        assert!(
            matches!(outcome, Outcome::Answered(it) if it.bond),
            "{outcome:?}"
        );
        near.write_all(b"question").unwrap();
        let (mut far, _) = listener.accept().unwrap();
        far.read_exact(&mut [0; 8]).unwrap();
    }
}

#[test]
fn beside_mptcp_it_goes_where_there_is_room() {
    let test = "discovery::beside_mptcp_it_goes_where_there_is_room";
    let Some(mut meeting) = Meeting::new(test) else {
        return;
    };
    let to = servers()[0];
    let connect = |meeting: &mut Meeting| {
        let mptcp = Some(Protocol::MPTCP);
        let socket = Socket::new(Domain::IPV4, Type::STREAM, mptcp).ok()?;
        meeting.wire.segments(PORT);
        socket.connect(&to.into()).unwrap();
        Some(meeting.next().outcome)
    };
    let says = Some(Announcement::There);
    meeting.client.set_everywhere(says).unwrap();
    // At a service without MPTCP there is room in both.
    let (server, listener) = meeting.fronted(Bonds::Refused);
    let Some(outcome) = connect(&mut meeting) else {
        return hawser_skip::skip(&format!("capture::{test}"), "no MPTCP here");
    };
    assert!(matches!(outcome, Outcome::Answered(_)), "{outcome:?}");
    drop((server, listener));
    let (server, _listener) = meeting.fronted_with(Bonds::Refused, Some(Protocol::MPTCP));
    assert_eq!(connect(&mut meeting), Some(Outcome::Plain));
    assert_eq!(server.counts().unwrap().no_room, 1);
}

#[test]
fn captured_connections_are_announced_by_the_link_that_they_are_bound_to() {
    let test = "discovery::captured_connections_are_announced_by_the_link_that_they_are_bound_to";
    let Some(mut meeting) = Meeting::new(test) else {
        return;
    };
    let Some((mut captured, group)) = capture(&format!("capture::{test}"), &turns()) else {
        return;
    };
    captured.set_links(&entries()).unwrap();
    let (_server, _listener) = meeting.fronted(Bonds::Refused);
    let says = Some(Announcement::There);
    meeting.client.set_everywhere(says).unwrap();
    let mut puppet = Puppet::new(Some(&group));
    for to in servers() {
        let from = puppet.connect("tcp", to);
        let learnt = meeting.next();
        assert!(matches!(learnt.outcome, Outcome::Answered(_)));
        let link = LINKS[usize::from(link_of(from)) - 1];
        assert_eq!(learnt.link, Some(entry(link).index));
    }
    assert_eq!(captured.open().len(), 2);
    puppet.ask("drop");
    // The capture's own callbacks are still there.
    eventually("their ends are seen", || captured.open().is_empty());
}
