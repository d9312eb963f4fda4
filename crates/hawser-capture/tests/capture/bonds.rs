//! Connections that want a bond.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};

use hawser_capture::{Announcement, Bonds, Outcome};

use crate::ground::{PATIENCE, entry, eventually, when_free};
use crate::meeting::*;
use crate::middleboxes::nft;
use crate::relay::Altered;

#[test]
fn what_wants_a_bond_is_given_to_hawser_on_the_same_port() {
    let test = "bonds::what_wants_a_bond_is_given_to_hawser_on_the_same_port";
    let Some(mut meeting) = Meeting::new(test) else {
        return;
    };
    let (server, service, hawser) = meeting.diverted();
    for to in servers() {
        for says in [Announcement::Bond, Announcement::BondAsInPaper] {
            let (near, outcome) = meeting.connect_saying(says, "west", to);
            assert!(
                matches!(outcome, Outcome::Answered(it) if it.bond),
                "{outcome:?}"
            );
            let far = accepted(&hawser[usize::from(to.is_ipv6())]);
            assert_eq!(far.peer_addr().unwrap(), near.local_addr().unwrap());
            assert_eq!(far.local_addr().unwrap().port(), PORT);
            exchange(near, far);
        }
        // SYNs that only announce bonding, and SYNs over another link, go to the service.
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
    assert_eq!(server.counts().unwrap().diverted, 4);
    // The same without Hawser's listener, although another program has its port by now.
    let at = hawser[0].local_addr().unwrap();
    drop(hawser);
    let other = meeting
        .ground
        .at_server(move || when_free(|| TcpListener::bind(("0.0.0.0", at.port()))));
    let (near, outcome) = meeting.connect_saying(Announcement::Bond, "west", servers()[0]);
    assert!(
        matches!(outcome, Outcome::Answered(it) if !it.bond),
        "{outcome:?}"
    );
    exchange(near, accepted(&service));
    drop((server, other));
    eventually("the programs are gone", || {
        let (near, outcome) = meeting.connect_saying(Announcement::Bond, "west", servers()[0]);
        exchange(near, accepted(&service));
        outcome == Outcome::Plain
    });
}

#[test]
fn a_socket_knows_at_once_what_it_was_answered() {
    let Some(mut meeting) = Meeting::new("bonds::a_socket_knows_at_once_what_it_was_answered")
    else {
        return;
    };
    let (server, service, _hawser) = meeting.diverted();
    let asking = meeting.client.socket_announcer();
    for _ in 0..100 {
        let to = servers()[0];
        let (socket, connected) = meeting.try_to_connect(Announcement::Bond, "west", to);
        connected.unwrap();
        let learnt = asking.learnt_on(&socket).unwrap();
        assert_eq!((learnt.to, learnt.link), (to, Some(entry("west").index)));
        assert!(
            matches!(learnt.outcome, Outcome::Answered(it) if it.bond),
            "{learnt:?}"
        );
        assert_eq!(asking.learnt_on(&socket), None);
    }
    drop(server);
    eventually("the programs are gone", || {
        let (socket, connected) = meeting.try_to_connect(Announcement::Bond, "west", servers()[0]);
        connected.unwrap();
        let learnt = asking.learnt_on(&socket).unwrap();
        learnt.outcome == Outcome::Plain
    });
    drop(accepted(&service));
    // Nothing is stored either for sockets that were not to announce by themselves.
    let everywhere = Some(Announcement::There);
    meeting.client.set_everywhere(everywhere).unwrap();
    let stream = TcpStream::connect(servers()[0]).unwrap();
    assert_eq!(asking.learnt_on(&stream), None);
}

#[test]
fn what_is_for_a_host_behind_this_one_goes_there() {
    let Some(mut meeting) = Meeting::new("bonds::what_is_for_a_host_behind_this_one_goes_there")
    else {
        return;
    };
    let (server, _service, hawser) = meeting.diverted();
    let behind = meeting.ground.behind(BEHIND, PORT);
    let to = SocketAddr::new(BEHIND.parse().unwrap(), PORT);
    let (near, outcome) = meeting.connect_saying(Announcement::Bond, "west", to);
    assert_eq!(outcome, Outcome::Plain);
    exchange(near, accepted(&behind.listener));
    assert_eq!(server.counts().unwrap().diverted, 0);
    let (near, outcome) = meeting.connect_saying(Announcement::Bond, "west", servers()[0]);
    assert!(matches!(outcome, Outcome::Answered(it) if it.bond));
    exchange(near, accepted(&hawser[0]));
}

#[test]
fn filters_of_a_run_that_was_killed_are_taken_away_and_those_of_others_stay() {
    let test = "bonds::filters_of_a_run_that_was_killed_are_taken_away_and_those_of_others_stay";
    let Some(meeting) = Meeting::new(test) else {
        return;
    };
    if std::process::Command::new("tc").arg("-V").output().is_err() {
        hawser_skip::skip(test, "there is no tc here");
        return;
    }
    let (mut server, _service) = meeting.fronted(Bonds::Diverted);
    let filters = meeting.ground.at_server(move || {
        let tc = |arguments: &str| {
            let ran = std::process::Command::new("tc")
                .args(arguments.split(' ').map(|it| it.replace('_', " ")))
                .output();
            let ran = ran.unwrap();
            assert!(ran.status.success(), "tc {arguments}: {ran:?}");
            String::from_utf8(ran.stdout).unwrap()
        };
        tc("qdisc add dev west clsact");
        // This filter lets everything pass.
        tc("filter add dev west ingress bpf bytecode 1,6_0_0_0,");
        server.divert_by_filter_on("west").unwrap();
        // As after a kill of the daemon.
        std::mem::forget(server);
        let mut later = crate::meeting::started().unwrap();
        later.divert_by_filter_on("west").unwrap();
        let filters = tc("filter show dev west ingress");
        drop(later);
        (filters, tc("filter show dev west ingress"))
    });
    let count = |filters: &str| filters.matches("name hawser_divert").count();
    assert_eq!(count(&filters.0), 1, "{}", filters.0);
    assert_eq!(count(&filters.1), 0, "{}", filters.1);
    assert!(filters.1.contains("bytecode"), "{}", filters.1);
}

pub(crate) fn accepted(listener: &TcpListener) -> TcpStream {
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

pub(crate) fn exchange(mut near: TcpStream, mut far: TcpStream) {
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
fn what_alters_numbers_and_splits_segments_on_the_way_changes_nothing() {
    let test = "bonds::what_alters_numbers_and_splits_segments_on_the_way_changes_nothing";
    let Some(mut meeting) = Meeting::new(test) else {
        return;
    };
    let altered = Altered {
        shift: [0x9000_0000, 0x7fff_ff00],
        most: 500,
    };
    let _relay = meeting.ground.relay("west", altered);
    let (server, service, hawser) = meeting.diverted();
    for to in servers() {
        for says in [Announcement::Bond, Announcement::BondAsInPaper] {
            let (near, outcome) = meeting.connect_saying(says, "west", to);
            assert!(
                matches!(outcome, Outcome::Answered(it) if it.bond),
                "{outcome:?}"
            );
            carry(near, accepted(&hawser[usize::from(to.is_ipv6())]));
        }
        let (near, outcome) = meeting.connect_saying(Announcement::There, "west", to);
        assert!(
            matches!(outcome, Outcome::Answered(it) if !it.bond),
            "{outcome:?}"
        );
        carry(near, accepted(&service));
    }
    assert_eq!(server.counts().unwrap().diverted, 4);
}

#[test]
fn what_is_diverted_is_carried_whole_where_devices_join_segments() {
    let test = "bonds::what_is_diverted_is_carried_whole_where_devices_join_segments";
    let Some(mut meeting) = Meeting::new(test) else {
        return;
    };
    let (_server, _service, hawser) = meeting.diverted();
    for to in servers() {
        meeting.wire.segments(PORT);
        let (near, outcome) = meeting.connect_saying(Announcement::Bond, "west", to);
        assert!(matches!(outcome, Outcome::Answered(it) if it.bond));
        carry(near, accepted(&hawser[usize::from(to.is_ipv6())]));
        let segments = meeting.wire.segments(PORT);
        let longest = segments.iter().map(|it| it.payload.len()).max();
        assert!(longest > Some(1500), "they are joined here: {longest:?}");
    }
}

#[test]
fn where_addresses_are_translated_bonds_are_given_all_the_same() {
    let test = "bonds::where_addresses_are_translated_bonds_are_given_all_the_same";
    let Some(mut meeting) = Meeting::new(test) else {
        return;
    };
    // The rule is for another port. Its existence is enough to make the kernel translate.
    let rules = "table inet translation { chain to { type nat hook prerouting priority dstnat; \
                 tcp dport 9999 redirect to :9998; }; }";
    if let Err(reason) = meeting.ground.at_server(move || nft(rules)) {
        return hawser_skip::skip(&format!("capture::{test}"), &reason);
    }
    let (_server, _service, hawser) = meeting.diverted();
    for to in servers() {
        let (near, outcome) = meeting.connect_saying(Announcement::Bond, "west", to);
        assert!(
            matches!(outcome, Outcome::Answered(it) if it.bond),
            "{outcome:?}"
        );
        exchange(near, accepted(&hawser[usize::from(to.is_ipv6())]));
    }
}

#[test]
fn what_a_rule_leads_to_another_port_comes_there_and_its_handshake_says_nothing() {
    let test =
        "bonds::what_a_rule_leads_to_another_port_comes_there_and_its_handshake_says_nothing";
    let Some(mut meeting) = Meeting::new(test) else {
        return;
    };
    let rules = format!(
        "table inet translation {{ chain to {{ type nat hook prerouting priority dstnat; \
         tcp dport {PORT} redirect to :{ELSEWHERE}; }}; }}"
    );
    if let Err(reason) = meeting.ground.at_server(|| nft(&rules)) {
        return hawser_skip::skip(&format!("capture::{test}"), &reason);
    }
    let (_server, _service, hawser) = meeting.diverted();
    for to in servers() {
        let (near, outcome) = meeting.connect_saying(Announcement::Bond, "west", to);
        assert_eq!(outcome, Outcome::Plain);
        let far = accepted(&hawser[usize::from(to.is_ipv6())]);
        assert_eq!(far.local_addr().unwrap().port(), ELSEWHERE);
        exchange(near, far);
    }
}

/// Has a connection carry more than a window, both ways.
fn carry(near: TcpStream, far: TcpStream) {
    let sent: Vec<u8> = (0..CARRIED).map(|at| (at / 251 + at) as u8).collect();
    for (mut from, mut to) in [(&near, &far), (&far, &near)] {
        to.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut heard = vec![0; sent.len()];
        std::thread::scope(|scope| {
            scope.spawn(|| from.write_all(&sent).unwrap());
            to.read_exact(&mut heard).unwrap();
        });
        assert!(heard == sent);
    }
}

#[test]
fn with_syn_cookies_no_bond_is_promised() {
    let Some(mut meeting) = Meeting::new("bonds::with_syn_cookies_no_bond_is_promised") else {
        return;
    };
    let cookies = || std::fs::write("/proc/sys/net/ipv4/tcp_syncookies", "2").unwrap();
    meeting.ground.at_server(cookies);
    let (_server, _service, _hawser) = meeting.diverted();
    for to in servers() {
        let (socket, connected) = meeting.try_to_connect(Announcement::Bond, "west", to);
        let outcome = meeting.next().outcome;
        assert!(
            matches!(outcome, Outcome::Answered(it) if !it.bond),
            "{outcome:?}"
        );
        // The service has sent no cookie itself, and accepts none.
        let ended = connected.and_then(|()| TcpStream::from(socket).read(&mut [0; 8]));
        let reset = std::io::ErrorKind::ConnectionReset;
        assert_eq!(ended.map_err(|error| error.kind()), Err(reset));
    }
}

/// The port to which a rule redirects connections to the fronted port.
const ELSEWHERE: u16 = 8443;
const CARRIED: usize = 1 << 18;

/// A host that the server forwards to.
const BEHIND: &str = "10.99.77.2";
