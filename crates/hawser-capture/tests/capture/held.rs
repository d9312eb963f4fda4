//! Destinations that are held.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};

use hawser_capture::{MAX_PEERS, Settings, Unruled};
use hawser_policy::{Action, Condition, Mode, Rule, RuleSet};

use crate::ground::{SERVER4, SERVER6};
use crate::stage::*;

#[test]
fn what_is_held_goes_by_this_process_or_nowhere() {
    let Some(mut stage) = Stage::new("held::what_is_held_goes_by_this_process_or_nowhere") else {
        return;
    };
    let here = TcpListener::bind("127.0.0.1:0").unwrap();
    let SocketAddr::V4(to_here) = here.local_addr().unwrap() else {
        panic!("a family")
    };
    let settings = Settings {
        redirect_ipv4: Some(to_here),
        unruled: Unruled::Peers,
        ..turns()
    };
    stage.capture.set_settings(&settings).unwrap();
    let (to4, to6) = (stage.to4(), stage.to6());
    let held = [&to4, &to6].map(|to| to.parse().unwrap());
    stage.capture.set_peers(&[held[0]], &held).unwrap();
    // Routes make no difference.
    let near = ["10.99.9.0/24".parse().unwrap()];
    stage.capture.set_local_prefixes(&near).unwrap();
    for kind in ["tcp", "mapped"] {
        stage.puppet.ask(&format!("{kind} {to4}"));
        here.accept().unwrap();
        assert_eq!(stage.puppet.ask("peer"), to4);
    }
    // There is no port for IPv6, and datagrams would go past the process.
    for refused in ["tcp", "udp"] {
        let answer = stage.puppet.tell(&format!("{refused} {to6}"));
        assert!(answer.starts_with("error 1 "), "{refused}: {answer}");
    }
    for refused in ["udp", "send 1"] {
        let answer = stage.puppet.tell(&format!("{refused} {to4}"));
        assert!(answer.starts_with("error 1 "), "{refused}: {answer}");
    }
    assert_eq!(stage.capture.counts().unwrap().refused, 4);
    // Other ports, and the user's rule for direct connections, are not affected.
    let other = format!("{SERVER4}:{}", stage.port() ^ 1);
    stage.puppet.ask(&format!("udp {other}"));
    let direct = Action {
        mode: Some(Mode::Direct),
        ..Action::default()
    };
    let rule = Rule {
        when: Condition::default(),
        then: direct,
        ..Rule::default()
    };
    let rules = RuleSet::new([rule]);
    stage.capture.set_rules(&rules).unwrap();
    stage.capture.set_local_prefixes(&[]).unwrap();
    assert_eq!(stage.links("tcp", &to4), [1, 2]);
    // Port 0 stands for all ports.
    stage.capture.set_rules(&RuleSet::default()).unwrap();
    let all = SocketAddr::new(held[0].ip(), 0);
    stage.capture.set_peers(&[], &[all]).unwrap();
    let answer = stage.puppet.tell(&format!("udp {other}"));
    assert!(answer.starts_with("error 1 "), "{answer}");
    stage.capture.set_peers(&[], &[]).unwrap();
    stage.puppet.ask(&format!("udp {other}"));
}

#[test]
fn datagrams_to_what_is_held_go_nowhere_by_sockets_that_hawser_has_bound() {
    let test = "held::datagrams_to_what_is_held_go_nowhere_by_sockets_that_hawser_has_bound";
    let Some(mut stage) = Stage::new(test) else {
        return;
    };
    let other_port = stage.port() ^ 1;
    for (address, to, own) in [
        (SERVER4, stage.to4(), "10.99.1.2:0"),
        (SERVER6, stage.to6(), "[fd99:1::2]:0"),
    ] {
        let held = SocketAddr::new(address.parse().unwrap(), other_port);
        stage.capture.set_peers(&[], &[]).unwrap();
        stage.puppet.ask(&format!("udp {to}"));
        let link = stage.capture.open().pop().unwrap().link;
        assert!(link.is_some());
        stage.puppet.ask(&format!("last-sends {held}"));
        stage.capture.set_peers(&[], &[held]).unwrap();
        for way in ["last-sends", "again"] {
            let answer = stage.puppet.tell(&format!("{way} {held}"));
            assert!(answer.starts_with("error 1 "), "{way} {held}: {answer}");
        }
        // The connection continues unchanged.
        assert_eq!(stage.puppet.ask("peer"), to);
        assert_eq!(stage.capture.open().pop().unwrap().link, link);
        stage.puppet.ask(&format!("last-sends {to}"));
        stage.puppet.ask(&format!("again {to}"));
        // A socket that the program has bound itself is exempt.
        stage.puppet.ask(&format!("udp-from {own} {held}"));
        stage.puppet.ask(&format!("last-sends {held}"));
        stage.puppet.ask("drop");
    }
    assert_eq!(stage.capture.counts().unwrap().refused, 4);
}

#[test]
fn a_destination_that_is_held_at_all_ports_is_no_peer_at_one() {
    let test = "held::a_destination_that_is_held_at_all_ports_is_no_peer_at_one";
    let Some(mut stage) = Stage::new(test) else {
        return;
    };
    let peer: SocketAddr = stage.to4().parse().unwrap();
    stage.capture.set_peers(&[peer], &[]).unwrap();
    stage.puppet.ask(&format!("udp {peer}"));
    let all = SocketAddr::new(peer.ip(), 0);
    stage.capture.set_peers(&[peer], &[all]).unwrap();
    let answer = stage.puppet.tell(&format!("udp {peer}"));
    assert!(answer.starts_with("error 1 "), "{answer}");
}

#[test]
fn what_is_always_near_is_not_held_whatever_is_asked() {
    let Some(mut stage) = Stage::new("held::what_is_always_near_is_not_held_whatever_is_asked")
    else {
        return;
    };
    let here = UdpSocket::bind("127.0.0.1:0").unwrap();
    let here = here.local_addr().unwrap();
    let held = [here, SocketAddr::new("127.0.0.1".parse().unwrap(), 0)];
    // A route may be more specific.
    let near = ["127.0.0.1/32".parse().unwrap()];
    for prefixes in [&near[..], &[]] {
        stage.capture.set_local_prefixes(prefixes).unwrap();
        stage.capture.set_peers(&[], &held).unwrap();
        stage.puppet.ask(&format!("udp {here}"));
        stage.puppet.ask(&format!("udp-from 0.0.0.0:0 {here}"));
        stage.puppet.ask(&format!("last-sends {here}"));
    }
    assert_eq!(stage.capture.counts().unwrap().refused, 0);
}

#[test]
fn peers_without_end_leave_room_for_what_is_held() {
    let Some(mut stage) = Stage::new("held::peers_without_end_leave_room_for_what_is_held") else {
        return;
    };
    let held: SocketAddr = stage.to4().parse().unwrap();
    let peer = |n: u32| SocketAddr::new(Ipv4Addr::from(n).into(), 443);
    for first in [1 << 24, 2 << 24] {
        let peers: Vec<SocketAddr> = (first..first + 5000).map(peer).collect();
        stage.capture.set_peers(&peers, &[held]).unwrap();
        let answer = stage.puppet.tell(&format!("udp {held}"));
        assert!(answer.starts_with("error 1 "), "{answer}");
    }
    let too_many: Vec<SocketAddr> = (0..=MAX_PEERS as u32).map(peer).collect();
    let error = stage.capture.set_peers(&[], &too_many).unwrap_err();
    assert!(error.to_string().contains("4097 destinations"), "{error}");
    // The earlier set stays in force.
    let answer = stage.puppet.tell(&format!("udp {held}"));
    assert!(answer.starts_with("error 1 "), "{answer}");
}
