//! Hosts known by name: `hawser peers add`, `list` and `remove`.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};

use serde_json::Value;

use super::program::{Place, until};

fn key(place: &Place, state: &str) -> String {
    let ended = place.run(state, &["peers", "key"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    ended.out.trim().to_owned()
}

fn names(place: &Place) -> Value {
    let ended = place.run("alice", &["peers", "list", "--json"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    serde_json::from_str::<Value>(&ended.out).unwrap()["names"].clone()
}

#[test]
fn a_host_is_known_by_its_key_until_it_is_removed() {
    let place = Place::new();
    let (alice, bob) = (key(&place, "alice"), key(&place, "bob"));
    let added = place.run("alice", &["peers", "add", "bob@example.org", &bob]);
    // What the other one has to know is there to be handed over.
    assert!(added.out.contains(&alice), "{added:?}");
    assert!(added.out.contains("bob.example.org"), "{added:?}");
    let known = names(&place);
    assert_eq!(known[0]["name"], "bob@example.org");
    assert_eq!(known[0]["key"], bob.as_str());
    let list = place.run("alice", &["peers"]).out;
    assert!(
        list.contains(&bob) && list.contains("bob@example.org"),
        "{list}"
    );
    let removed = place.run("alice", &["peers", "remove", "bob@example.org"]);
    assert_eq!(removed.code, 0, "{removed:?}");
    place
        .run("alice", &["peers", "remove", "bob@example.org"])
        .expect(1, "bob@example.org is not known");
}

#[test]
fn a_known_name_is_refused_where_nothing_leads_to_its_host() {
    let place = Place::new();
    let bob = key(&place, "bob");
    let added = place.run("alice", &["peers", "add", "bob@example.org", &bob]);
    assert_eq!(added.code, 0, "{added:?}");
    let up = place.launch("alice", &["up", "--direct", "--listen", "127.0.0.1:0"]);
    let listens = || up.listen(&place).is_some();
    until("the proxy listens", listens, || up.log());
    let proxy: SocketAddr = up.listen(&place).unwrap().parse().unwrap();
    let is_told = |what: &str| until(what, || up.log().contains(what), || up.log());
    let name = b"bob.example.org";
    let to_bob = [&[3, name.len() as u8], &name[..], &[0, 7]].concat();

    // Without `--name`.
    let mut stream = greeted(proxy);
    stream
        .write_all(&[&[5, 1, 0][..], &to_bob].concat())
        .unwrap();
    let mut answer = [0; 10];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer[1], UNREACHABLE, "{}", up.log());
    is_told("only `hawser up --name` opens it");

    // By datagrams.
    let mut stream = greeted(proxy);
    stream.write_all(&[5, 3, 0, 1, 0, 0, 0, 0, 0, 0]).unwrap();
    stream.read_exact(&mut answer).unwrap();
    let port = u16::from_be_bytes([answer[8], answer[9]]);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let datagram = [&[0, 0, 0][..], &to_bob, b"here"].concat();
    socket.send_to(&datagram, ("127.0.0.1", port)).unwrap();
    is_told("it is reachable over TCP only");
    let dropped = || {
        let status = place.status("alice").unwrap();
        status["counters"]["proxy-datagrams-dropped"] == 1
    };
    until("it is dropped", dropped, || up.log());
    up.end();
}

/// A connection to a proxy by SOCKS5 that waits for a request.
fn greeted(proxy: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(proxy).unwrap();
    stream.write_all(&[5, 1, 0]).unwrap();
    stream.read_exact(&mut [0; 2]).unwrap();
    stream
}

/// SOCKS5: host unreachable.
const UNREACHABLE: u8 = 4;

#[test]
fn an_invite_says_whose_key_a_name_has() {
    let place = Place::new();
    let gateway = place.serve();
    let invite = place.invite();
    let added = place.run("alice", &["peers", "add", "bob@example.org", &invite]);
    assert_eq!(added.code, 0, "{added:?}");
    assert_eq!(names(&place)[0]["key"], key(&place, "gateway").as_str());
    gateway.end();
}

#[test]
fn a_bare_name_and_a_key_that_cannot_be_are_refused() {
    let place = Place::new();
    let bare = place.run("alice", &["peers", "add", "bob@example.org"]);
    bare.expect(2, "--trust-first");
    let own = key(&place, "alice");
    place
        .run("alice", &["peers", "add", "bob@example.org", &own])
        .expect(2, "the key of this host itself");
    place
        .run("alice", &["peers", "add", "bob@example.org", "abc"])
        .expect(2, "a key of 43 characters");
    place
        .run("alice", &["peers", "add", "bob", &own])
        .expect(2, "alice@example.org");
    let trusted = place.run(
        "alice",
        &["peers", "add", "bob@example.org", "--trust-first"],
    );
    assert_eq!(trusted.code, 0, "{trusted:?}");
    assert_eq!(names(&place)[0]["key"], Value::Null);
    let bob = key(&place, "bob");
    assert_eq!(
        place
            .run("alice", &["peers", "add", "bob@example.org", &bob])
            .code,
        0
    );
    assert_eq!(names(&place)[0]["trusted_first"], false);
    let carol = key(&place, "carol");
    place
        .run("alice", &["peers", "add", "bob@example.org", &carol])
        .expect(1, "another key");
}
