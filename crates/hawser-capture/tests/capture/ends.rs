use std::io::{Read, Write};
use std::time::Duration;

use hawser_capture::{Bytes, Capture, Event, Events, Handshake, Settings};
use hawser_sched::connection::ConnectionPolicy;
use hawser_types::ByteCount;

use crate::ground::*;
use crate::stage::*;

/// Returns a runtime, and the events of a stage's connections.
fn followed(stage: &mut Stage) -> (tokio::runtime::Runtime, Events) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let events = {
        let _inside = runtime.enter();
        stage.capture.events().unwrap().unwrap()
    };
    (runtime, events)
}

fn next(runtime: &tokio::runtime::Runtime, events: &mut Events) -> Event {
    let next = async { tokio::time::timeout(PATIENCE, events.next()).await };
    runtime.block_on(next).unwrap().unwrap()
}

#[test]
fn ends_come_back_with_what_was_moved() {
    let Some(mut stage) = Stage::new("ends::ends_come_back_with_what_was_moved") else {
        return;
    };
    let (runtime, mut events) = followed(&mut stage);
    let to = stage.to4();
    stage.puppet.connect("tcp", &to);
    let (mut server, _) = stage.listener.accept().unwrap();
    let Event::Connected(connection) = next(&runtime, &mut events) else {
        panic!("connected")
    };
    assert_eq!(connection.remote.to_string(), to);
    assert_eq!(connection.process, stage.puppet.child.id());
    assert_eq!(connection.cgroup, stage.group.number().unwrap());
    assert_eq!(connection.link, Some(entry("west").index));
    stage.puppet.ask("write hello");
    server.write_all(b"good morning").unwrap();
    server.read_exact(&mut [0; 5]).unwrap();
    eventually("the answer has come", || {
        stage.capture.recount().unwrap();
        let progress = stage.capture.progress(connection.cookie);
        progress.is_some_and(|it| it.moved.down.as_u64() >= 12)
    });
    stage.puppet.ask("drop");
    let Event::Ended(same, end) = next(&runtime, &mut events) else {
        panic!("ended")
    };
    assert_eq!(same, connection);
    let moved = end.moved;
    // A socket closed with unread data is reset at once, and only acknowledged data of it counts as
    // sent.
    assert!(
        moved.up.as_u64() <= 6 && moved.down.as_u64() <= 12,
        "{moved:?}"
    );
    assert!(moved.down.as_u64() >= 12 && end.connect_time.is_some() && end.latency.is_some());
    // A refused connection ends without having begun.
    stage.puppet.tell(&format!("tcp {SERVER4}:1"));
    assert!(matches!(next(&runtime, &mut events), Event::Connected(_)));
    let Event::Ended(_, end) = next(&runtime, &mut events) else {
        panic!("ended")
    };
    assert_eq!((end.connect_time, end.latency), (None, None));
}

#[test]
fn what_is_held_and_can_go_nowhere_is_told() {
    let Some(mut stage) = Stage::new("ends::what_is_held_and_can_go_nowhere_is_told") else {
        return;
    };
    let (runtime, mut events) = followed(&mut stage);
    let to = stage.to4();
    let held = to.parse().unwrap();
    stage.capture.set_peers(&[], &[held]).unwrap();
    for (kind, udp) in [("udp", true), ("tcp", false)] {
        let answer = stage.puppet.tell(&format!("{kind} {to}"));
        assert!(answer.starts_with("error 1 "), "{answer}");
        let Event::Refused(connection) = next(&runtime, &mut events) else {
            panic!("refused")
        };
        assert_eq!((connection.remote, connection.udp), (held, udp));
        assert_eq!(connection.process, stage.puppet.child.id());
    }
}

#[test]
fn datagrams_are_counted_by_their_payload() {
    let Some(mut stage) = Stage::new("ends::datagrams_are_counted_by_their_payload") else {
        return;
    };
    let (runtime, mut events) = followed(&mut stage);
    for address in [SERVER4, SERVER6] {
        let server = stage.ground.datagrams_to(address);
        let to = server.local_addr().unwrap().to_string();
        stage.puppet.connect("udp", &to);
        let Event::Connected(connection) = next(&runtime, &mut events) else {
            panic!("connected")
        };
        stage.puppet.ask("write hello");
        stage.puppet.ask("write again");
        let (_, from) = server.recv_from(&mut [0; 64]).unwrap();
        server.recv_from(&mut [0; 64]).unwrap();
        server.send_to(b"good morning", from).unwrap();
        let expected = Bytes {
            up: ByteCount::new(10),
            down: ByteCount::new(12),
        };
        eventually("what is open is counted", || {
            stage.capture.recount().unwrap();
            let progress = stage.capture.progress(connection.cookie);
            progress.is_some_and(|progress| progress.moved == expected)
        });
        stage.puppet.ask("drop");
        let Event::Ended(same, end) = next(&runtime, &mut events) else {
            panic!("ended")
        };
        assert_eq!((same, end.moved), (connection, expected));
    }
}

#[test]
fn a_dead_links_unanswered_connections_are_aborted() {
    let test = "ends::a_dead_links_unanswered_connections_are_aborted";
    let Some(mut stage) = Stage::new(test) else {
        return;
    };
    let to = stage.to4();
    let [west, east] = [entry("west"), entry("east")];
    stage
        .capture
        .set_links(std::slice::from_ref(&east))
        .unwrap();
    stage.puppet.connect("tcp", &to);
    // The server receives nothing from it any more; this host cannot see that.
    stage.ground.ip("link set east promisc off arp off");
    stage.ground.ip("addr flush dev east");
    stage.ground.ip("route add blackhole 10.99.2.0/24");
    let answered = stage.capture.open()[0].cookie;
    let is_answered = |capture: &Capture, cookie| {
        matches!(capture.handshake(cookie), Ok(Handshake::Answered { .. }))
    };
    eventually("it is answered", || is_answered(&stage.capture, answered));
    stage.puppet.begin(&format!("tcp {to}"));
    eventually("it is about to connect", || stage.capture.open().len() == 2);
    let open = stage.capture.open();
    let waits = open.iter().find(|it| it.cookie != answered).unwrap().cookie;
    eventually("it waits longer and longer", || {
        let handshake = stage.capture.handshake(waits).unwrap();
        matches!(handshake, Handshake::Unanswered(waited) if waited > Duration::from_millis(50))
    });
    assert_eq!(stage.capture.abort_unanswered(west.index).unwrap(), 0);
    eventually("it waits", || {
        stage.capture.abort_unanswered(east.index).unwrap() == 1
    });
    let answer = stage.puppet.answer();
    assert!(
        answer.starts_with("error 103"),
        "it hears of it at once: {answer}"
    );
    assert_eq!(stage.capture.handshake(waits).unwrap(), Handshake::Over);
    stage.capture.set_links(&[west]).unwrap();
    assert_eq!(link_of(stage.puppet.connect("again", &to)), 1);
}

#[test]
fn there_is_always_room_for_what_was_learnt_last() {
    let Some(mut stage) = Stage::new("ends::there_is_always_room_for_what_was_learnt_last") else {
        return;
    };
    let (to, class) = (stage.to4(), hawser_sched::PortClass::of(stage.port()));
    let demand = Bytes {
        up: ByteCount::new(1),
        down: ByteCount::new(2),
    };
    let others: Vec<String> = (0..9000)
        .map(|number| format!("program-{number}"))
        .collect();
    let programs = others.iter().map(String::as_str).chain(["puppet"]);
    let known = programs.map(|program| (program, class, demand));
    stage.capture.set_demands(known).unwrap();
    stage.puppet.connect("tcp", &to);
    assert_eq!(stage.capture.open()[0].demand, demand);
}

#[test]
fn load_is_charged_and_given_back() {
    let settings = Settings {
        policy: ConnectionPolicy::MaxThroughput,
        demand: [Bytes {
            up: ByteCount::new(100),
            down: ByteCount::new(1_000_000),
        }; 4],
        ..Settings::default()
    };
    let Some(mut stage) = Stage::with("ends::load_is_charged_and_given_back", &settings) else {
        return;
    };
    let to = stage.to4();
    let [mut west, east] = [entry("west"), entry("east")];
    // The link `west` is three times as fast and gets three of four connections.
    west.down = hawser_types::Rate::from_bits_per_second(300_000_000);
    stage.capture.set_links(&[west, east]).unwrap();
    assert_eq!(stage.links("tcp", &to), [1, 1, 1, 2, 1, 1, 1, 2]);
    let counted = stage.capture.recount().unwrap();
    let loads: Vec<_> = counted
        .iter()
        .map(|(_, load)| (load.connections, load.down.as_u64()))
        .collect();
    assert_eq!(loads, [(6, 6_000_000), (2, 2_000_000)]);
    // The load of other connections counts, too.
    let other = hawser_sched::connection::Load {
        connections: 1,
        down: ByteCount::new(50_000_000),
        ..Default::default()
    };
    let (west, on_west) = stage.capture.recount().unwrap()[0];
    let both = hawser_sched::connection::Load {
        connections: on_west.connections + other.connections,
        up: on_west.up,
        down: on_west.down + other.down,
    };
    stage.capture.set_loads(&[(west, both)]).unwrap();
    assert_eq!(stage.links("tcp", &to), [2; 4]);
    stage.puppet.ask("drop");
    let left = [
        (entry("west").index, other),
        (entry("east").index, Default::default()),
    ];
    eventually("all is given back", || {
        stage.capture.loads().unwrap() == left
    });
    stage.capture.recount().unwrap();
    stage
        .capture
        .set_demands([(
            "puppet",
            hawser_sched::PortClass::of(stage.port()),
            Bytes::default(),
        )])
        .unwrap();
    assert_eq!(
        stage.links("tcp", &to),
        [1; 4],
        "nothing is expected of it, so nothing is in the way"
    );
}
