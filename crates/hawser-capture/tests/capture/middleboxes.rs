//! What middleboxes do to the option of a handshake.

use std::process::Command;

use hawser_capture::{Announcement, Bonds, Middleboxes, Outcome};
use hawser_skip::wire::{Flag, Segment};
use hawser_types::Instant;
use socket2::{Domain, Socket, Type};

use crate::ground::entry;
use crate::meeting::*;

#[test]
fn what_drops_the_option_costs_one_repetition_once() {
    let test = "middleboxes::what_drops_the_option_costs_one_repetition_once";
    let Some(mut meeting) = Meeting::new(test) else {
        return;
    };
    let (_server, _listener) = meeting.fronted(Bonds::Refused);
    let rules = "table inet middlebox { chain input { type filter hook input priority 0; \
                 tcp option 254 exists drop; }; }";
    let ran = meeting.ground.at_server(move || nft(rules));
    if let Err(reason) = ran {
        return hawser_skip::skip(&format!("capture::{test}"), &reason);
    }
    meeting
        .client
        .set_everywhere(Some(Announcement::There))
        .unwrap();
    let mut boxes = Middleboxes::default();
    for to in servers() {
        let segments = meeting.connect(to);
        let is_syn = |it: &&Segment| it.has(Flag::Syn) && !it.has(Flag::Ack);
        let syns: Vec<_> = segments.iter().filter(is_syn).collect();
        assert_eq!(syns.len(), 2, "it was repeated once");
        assert!(syns[0].option().is_some() && syns[1].option().is_none());
        let repeated = meeting.next();
        assert_eq!((repeated.to, repeated.outcome), (to, Outcome::Repeated));
        assert!(boxes.handle_learnt(Instant::ZERO, &repeated).is_empty());
        let learnt = meeting.next();
        assert_eq!((learnt.to, learnt.outcome), (to, Outcome::AnsweredWithout));
        for avoidance in boxes.handle_learnt(Instant::ZERO, &learnt) {
            meeting.client.avoid(&avoidance).unwrap();
        }
        let segments = meeting.connect(to);
        assert_usual(&segments);
        assert_eq!(segments[0].option(), None);
    }
    // In another network it is tried again, and over another link.
    meeting.client.forget_link(None).unwrap();
    boxes.forget_link(None);
    assert!(meeting.connect(servers()[0])[0].option().is_some());
    assert_eq!(meeting.next().outcome, Outcome::Repeated);
    assert_eq!(meeting.next().outcome, Outcome::AnsweredWithout);
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind_device(Some(b"west")).unwrap();
    socket.connect(&servers()[0].into()).unwrap();
    let learnt = meeting.next();
    let west = entry("west").index;
    assert_eq!(
        (learnt.link, learnt.outcome),
        (Some(west), Outcome::Repeated)
    );
    assert!(boxes.avoided(Instant::ZERO).is_empty());
}

#[test]
fn what_takes_the_option_out_leaves_an_ordinary_connection() {
    let test = "middleboxes::what_takes_the_option_out_leaves_an_ordinary_connection";
    let Some(mut meeting) = Meeting::new(test) else {
        return;
    };
    let (server, _listener) = meeting.fronted(Bonds::Refused);
    let rules = "table inet middlebox { chain input { type filter hook prerouting priority -300; \
                 reset tcp option 254; }; }";
    let ran = meeting.ground.at_server(move || nft(rules));
    if let Err(reason) = ran {
        return hawser_skip::skip(&format!("capture::{test}"), &reason);
    }
    meeting
        .client
        .set_everywhere(Some(Announcement::There))
        .unwrap();
    for to in servers() {
        let segments = meeting.connect(to);
        assert_usual(&segments);
        assert_eq!(segments[1].option(), None);
        assert_eq!(meeting.next().outcome, Outcome::Plain);
    }
    assert_eq!(server.counts().unwrap().answered, 0);
}

/// Adds rules in the calling thread's namespace; fails where the system does not know them.
pub(crate) fn nft(rules: &str) -> Result<(), String> {
    let mut command = Command::new("nft");
    let output = command.arg(rules).output();
    let output = output.map_err(|error| format!("cannot run nft: {error}"))?;
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}
