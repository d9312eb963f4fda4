use std::net::TcpListener;

use hawser_capture::{Settings, Unruled};

use crate::ground::*;
use crate::stage::*;

#[test]
fn connections_of_both_families_take_turns() {
    let Some(mut stage) = Stage::new("placing::connections_of_both_families_take_turns") else {
        return;
    };
    let (to4, to6) = (stage.to4(), stage.to6());
    assert_eq!(stage.links("tcp", &to4), [1, 2, 1, 2]);
    assert_eq!(stage.links("tcp", &to6), [1, 2, 1, 2]);
    assert_eq!(stage.links("mapped", &to4), [1, 2]);
    assert_eq!(stage.links("udp", &to4), [1, 2]);
    assert_eq!(stage.links("udp", &to6), [1, 2]);
    stage.capture.set_links(&[]).unwrap();
    assert_eq!(
        stage.links("tcp", &to4),
        [1, 1],
        "as without us when there are no links"
    );
    stage.capture.set_links(&entries()).unwrap();
    assert_eq!(stage.links("tcp", &to4), [1, 2]);
    drop(stage.capture);
    // A program that another test starts holds all descriptors until it runs, the capture's too.
    let puppet = &mut stage.puppet;
    eventually("nothing places connections any more", || {
        [(); 2].map(|()| link_of(puppet.connect("tcp", &to4))) == [1, 1]
    });
}

#[test]
fn a_link_that_goes_before_the_table_knows_harms_nothing() {
    let test = "placing::a_link_that_goes_before_the_table_knows_harms_nothing";
    let Some(mut stage) = Stage::new(test) else {
        return;
    };
    let (to4, to6) = (stage.to4(), stage.to6());
    ip("link del east");
    assert_eq!(stage.links("tcp", &to4), [1; 4]);
    assert_eq!(stage.links("tcp", &to6), [1; 4]);
    assert!(stage.capture.counts().unwrap().unbound >= 4);
    // Another device of that name is not the same link.
    stage.ground.add_link(3, "east");
    assert_eq!(stage.links("tcp", &to4), [1; 4]);
}

#[test]
fn a_family_goes_over_links_that_have_it() {
    let Some(mut stage) = Stage::new("placing::a_family_goes_over_links_that_have_it") else {
        return;
    };
    let (to4, to6) = (stage.to4(), stage.to6());
    let [mut west, mut east] = [entry("west"), entry("east")];
    (west.ipv6, east.ipv4) = (false, false);
    stage
        .capture
        .set_links(&[west.clone(), east.clone()])
        .unwrap();
    assert_eq!(stage.links("tcp", &to4), [1, 1]);
    assert_eq!(stage.links("mapped", &to4), [1, 1]);
    assert_eq!(stage.links("tcp", &to6), [2, 2]);
    east.ipv6 = false;
    stage.capture.set_links(&[west, east]).unwrap();
    assert_eq!(stage.links("tcp", &to6), [1, 1], "by the default route");
}

#[test]
fn what_is_near_or_bound_already_is_left_alone() {
    let Some(mut stage) = Stage::new("placing::what_is_near_or_bound_already_is_left_alone") else {
        return;
    };
    let to = stage.to4();
    let port = stage.port();
    let near = [format!("10.99.2.1:{port}"), format!("[fd99:2::1]:{port}")];
    stage
        .capture
        .set_local_prefixes(&[
            "10.99.2.0/24".parse().unwrap(),
            "fd99:2::/64".parse().unwrap(),
        ])
        .unwrap();
    for near in near {
        assert_eq!(stage.links("tcp", &near), [2; 4]);
    }
    // The application's choice of an address is respected; the choice of a port alone is not
    // relevant.
    let from = |address| format!("tcp-from {address}");
    assert_eq!(stage.links(&from("10.99.1.2:0"), &to), [1; 3]);
    assert_eq!(stage.links(&from("0.0.0.0:0"), &to), [1, 2]);
    let here = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let answer = stage.puppet.tell(&format!("udp {here}"));
    assert!(answer.starts_with("127.0.0.1:"), "{answer}");
    // The prefix of all IPv6 does not contain IPv4.
    stage
        .capture
        .set_local_prefixes(&["::/0".parse().unwrap()])
        .unwrap();
    assert_eq!(stage.links("tcp", &to), [1, 2]);
    let to6 = stage.to6();
    assert_eq!(stage.links("tcp", &to6), [1, 1]);
}

#[test]
fn a_socket_may_connect_again() {
    let Some(mut stage) = Stage::new("placing::a_socket_may_connect_again") else {
        return;
    };
    let to = stage.to4();
    // No server listens there: the first try fails over one link, the second takes the other.
    let closed = format!("tcp {SERVER4}:1");
    let answer = stage.puppet.tell(&closed);
    assert!(answer.starts_with("error 111"), "{answer}");
    assert_eq!(link_of(stage.puppet.connect("again", &to)), 2);
    // A datagram socket with an address keeps it.
    assert_eq!(link_of(stage.puppet.connect("udp", &to)), 1);
    let other = format!("{SERVER4}:9");
    assert_eq!(link_of(stage.puppet.connect("again", other)), 1);
    assert_eq!(stage.capture.open().len(), 2);
    // A program without privileges cannot have its socket unbound, and keeps the link.
    stage.puppet.ask("user 65534");
    let answer = stage.puppet.tell(&closed);
    assert!(answer.starts_with("error 111"), "{answer}");
    assert_eq!(link_of(stage.puppet.connect("again", &to)), 2);
}

#[test]
fn with_a_mark_what_is_direct_has_it_and_what_is_for_the_gateway_is_left_alone() {
    let test =
        "placing::with_a_mark_what_is_direct_has_it_and_what_is_for_the_gateway_is_left_alone";
    let mut settings = Settings {
        mark: Some(0x48),
        ..turns()
    };
    let Some(mut stage) = Stage::with(test, &settings) else {
        return;
    };
    let (to4, to6) = (stage.to4(), stage.to6());
    for kind in ["tcp", "udp"] {
        assert_eq!(stage.links(kind, &to4), [1, 2]);
        assert_eq!(stage.puppet.ask("mark"), "72");
        assert_eq!(stage.links(kind, &to6), [1, 2]);
        assert_eq!(stage.puppet.ask("mark"), "72");
    }
    let answer = stage.puppet.tell(&format!("tcp {SERVER4}:1"));
    assert!(answer.starts_with("error 111"), "{answer}");
    assert_eq!(stage.puppet.ask("mark"), "72");
    // Now it is for a gateway, but no redirect address leads there.
    settings.unruled = Unruled::Bonded;
    stage.capture.set_settings(&settings).unwrap();
    for kind in ["again", "tcp", "udp"] {
        assert_eq!(stage.links(kind, &to4), [1], "by the default route");
        assert_eq!(stage.puppet.ask("mark"), "0");
        if kind == "again" {
            continue;
        }
        assert_eq!(stage.links(kind, &to6), [1]);
        assert_eq!(stage.puppet.ask("mark"), "0");
    }
}

#[test]
fn datagrams_without_a_connection_are_answered() {
    let Some(mut stage) = Stage::new("placing::datagrams_without_a_connection_are_answered") else {
        return;
    };
    let server = stage.ground.datagrams();
    let port = server.local_addr().unwrap().port();
    stage.puppet.begin(&format!("send 3 {SERVER4}:{port}"));
    for _ in 0..3 {
        let mut bytes = [0; 64];
        let (length, from) = server.recv_from(&mut bytes).unwrap();
        assert_eq!(link_of(from.ip().to_canonical()), 1, "by the default route");
        server.send_to(&bytes[..length], from).unwrap();
    }
    assert_eq!(stage.puppet.answer(), "answered");
}
