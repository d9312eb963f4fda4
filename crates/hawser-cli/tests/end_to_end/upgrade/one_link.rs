//! A gateway whose links change while an old process serves.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;

use hawser_skip::namespace::in_namespace;
use serde_json::Value;

use super::super::internet::{Internet, SERVER};
use super::super::program::{Place, until};
use super::{until_alone, upgrade};

/// The gateway has one link left while the old process has its UDP sockets bound to two. What comes
/// for an association with the new one is not the old one's.
#[test]
fn associations_begin_on_a_link_that_is_left_alone() {
    let test = "upgrade::one_link::associations_begin_on_a_link_that_is_left_alone";
    in_namespace(test, || {
        let Some(net) = Internet::new(test) else {
            return;
        };
        let (place, gateway) = (&net.place, net.serve());
        let flags = ["--transport", "sctp", "--gateway"];
        let up = |state: &str, invite: &str| {
            let always = ["up", "--listen", "127.0.0.1:0"];
            place.start(state, &[&always[..], &flags, &[invite]].concat())
        };
        let first = up("client", &place.invite());
        let log = || format!("{}\n{}", first.log(), gateway.log());
        let by_association = || has_association(place, "client");
        until("an association stands", by_association, log);
        // It keeps the old process there.
        let open = stay(&first.listen(place).unwrap());

        upgrade(place, "gateway", &gateway);
        for link in ["lte", "wan"] {
            net.gateway.ip(&format!("link del {link}"));
        }
        let invite = place.run("gateway", &["invite"]).out;
        let second = up("second", invite.trim());
        let log = || format!("{}\n{}", second.log(), gateway.log());
        until(
            "another association stands",
            || has_association(place, "second"),
            log,
        );
        let before = &place.status("gateway").unwrap()["predecessor"];
        assert_eq!(before["open"], 1, "the old process was there: {}", log());
        drop(open);
        until_alone(place, "gateway", log);
        second.end();
        first.end();
        gateway.end();
    });
}

/// Opens a connection by a proxy port, over which the server has said something.
fn stay(proxy: &str) -> TcpStream {
    let mut open = TcpStream::connect(proxy).unwrap();
    let request = format!("CONNECT {SERVER}:7 HTTP/1.1\r\n\r\n");
    open.write_all(request.as_bytes()).unwrap();
    let heard = BufReader::new(open.try_clone().unwrap()).lines();
    let mut heard = heard.map(|line| line.unwrap());
    assert!(heard.any(|line| line == "11.0.0.1"), "it ends");
    open
}

/// Whether a client has a channel that is an association.
fn has_association(place: &Place, state: &str) -> bool {
    let status = place.status(state).unwrap_or_default();
    let all = |value: &Value, name: &str| value[name].as_array().cloned().unwrap_or_default();
    let sessions = all(&status, "sessions").into_iter();
    let paths = sessions.flat_map(|session| all(&session, "paths"));
    let mut channels = paths.flat_map(|path| all(&path, "channels"));
    channels.any(|channel| !channel["transport"].is_null())
}
