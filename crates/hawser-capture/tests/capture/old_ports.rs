//! Ports that the server still knows from an older connection.

use std::io::{self, Read as _};
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use hawser_capture::{Announcement, Bonds, Outcome};
use hawser_skip::wire::{ByHand, Flag, Segment};
use socket2::{Domain, Socket, Type};

use crate::ground::*;
use crate::meeting::*;

#[test]
fn a_port_that_the_server_still_knows_from_before_is_asked_again() {
    let test = "old_ports::a_port_that_the_server_still_knows_from_before_is_asked_again";
    let Some(mut meeting) = Meeting::new(test) else {
        return;
    };
    let (_server, listener) = meeting.fronted(Bonds::Refused);
    // Otherwise newer timestamps let a SYN take the place of an old connection.
    std::fs::write("/proc/sys/net/ipv4/tcp_timestamps", "0").unwrap();
    for (to, port) in servers().into_iter().zip(40_001..) {
        // The server closes first, and keeps the ports for a minute.
        let mut old = beginning_at(1 << 30, port, to);
        let (accepted, _) = listener.accept().unwrap();
        // Not by dropping: a program that another test starts holds the connection until it runs.
        accepted.shutdown(Shutdown::Write).unwrap();
        assert_eq!(old.read(&mut [0]).unwrap(), 0);
        old.shutdown(Shutdown::Write).unwrap();
        assert_eq!((&accepted).read(&mut [0]).unwrap(), 0);
        drop((old, accepted));
        meeting.wire.segments(PORT);
        let there = Some(Announcement::There);
        meeting.client.set_everywhere(there).unwrap();
        // The number is before those that the server has seen, so the SYN may be a late copy.
        drop(beginning_at(1 << 20, port, to));
        drop(listener.accept().unwrap());
        let segments = meeting.wire.segments(PORT);
        let has = |it: &Segment| (it.has(Flag::Syn), it.has(Flag::Ack), it.option().is_some());
        let has: Vec<_> = segments.iter().take(5).map(has).collect();
        let (syn, answer) = ((true, false, true), (true, true, true));
        let (acknowledged, reset) = ((false, true, false), (false, false, false));
        assert_eq!(has, [syn, acknowledged, reset, syn, answer]);
        let learnt = meeting.next();
        let is_answered = matches!(learnt.outcome, Outcome::Answered(_));
        assert!(is_answered, "{learnt:?}");
        meeting.client.set_everywhere(None).unwrap();
    }
}

#[test]
fn a_server_that_knows_the_port_from_before_and_says_so_late_is_asked_again() {
    let test =
        "old_ports::a_server_that_knows_the_port_from_before_and_says_so_late_is_asked_again";
    let Some(mut meeting) = Meeting::new(test) else {
        return;
    };
    let there = Some(Announcement::There);
    meeting.client.set_everywhere(there).unwrap();
    // The server does not forward, so only the answer by hand arrives.
    let to = SocketAddr::new("10.99.77.2".parse().unwrap(), PORT);
    let hand = meeting.ground.at_server(|| ByHand::new().unwrap());
    let mut syns = Vec::new();
    eventually("the answer comes before the timer ends", || {
        meeting.wire.segments(PORT);
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_nonblocking(true).unwrap();
        assert!(socket.connect(&to.into()).is_err(), "it is in progress");
        let is_syn = |it: &Segment| it.to == to && it.has(Flag::Syn);
        let syn = meeting.wire.wait_for(PATIENCE, is_syn).unwrap();
        // The timer is set to one second. A machine that is busy may be late.
        std::thread::sleep(Duration::from_millis(750));
        let strange = Segment {
            acknowledgement: syn.sequence.wrapping_add(1 << 20),
            ..Segment::new(to, syn.from, &[Flag::Ack])
        };
        hand.send(&strange);
        let heard = |it: &Segment| it.has(Flag::Reset) || is_syn(it);
        let next = meeting.wire.wait_for(PATIENCE, heard).unwrap();
        let is_in_time = next.has(Flag::Reset);
        if is_in_time {
            let again = meeting.wire.wait_for(PATIENCE, is_syn).unwrap();
            syns = vec![syn, again];
        }
        is_in_time
    });
    assert!(syns.iter().all(|it| it.option().is_some()), "{syns:?}");
}

/// Connects from `port`, with `number` as the first sequence number, once the port is free here.
fn beginning_at(number: libc::c_int, port: u16, to: SocketAddr) -> TcpStream {
    let mut begun = None;
    eventually("the port is free", || {
        begun = try_beginning_at(number, port, to).ok();
        begun.is_some()
    });
    begun.unwrap()
}

fn try_beginning_at(number: libc::c_int, port: u16, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, None).unwrap();
    let by_hand = [
        (libc::TCP_REPAIR, 1),
        (libc::TCP_REPAIR_QUEUE, SEND_QUEUE),
        (libc::TCP_QUEUE_SEQ, number),
        (libc::TCP_REPAIR, 0),
    ];
    for (option, value) in by_hand {
        tcp_option(&socket, option, value);
    }
    socket.set_reuse_address(true)?;
    let from = match to {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)),
    };
    socket.bind(&from.into())?;
    socket.connect(&to.into())?;
    Ok(socket.into())
}

/// The queue of sent data, of a socket that is set up by hand (`linux/tcp.h`).
const SEND_QUEUE: libc::c_int = 2;
