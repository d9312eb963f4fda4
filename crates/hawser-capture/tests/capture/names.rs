use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};

use crate::ground::*;
use crate::stage::*;

/// Answers every datagram and every connection at a port on loopback.
fn answer_at(loopback: IpAddr) -> u16 {
    let socket = UdpSocket::bind((loopback, 0)).unwrap();
    let port = socket.local_addr().unwrap().port();
    let listener = TcpListener::bind((loopback, port)).unwrap();
    std::thread::spawn(move || {
        let mut bytes = [0; 64];
        while let Ok((length, from)) = socket.recv_from(&mut bytes) {
            socket.send_to(&bytes[..length], from).unwrap();
        }
    });
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, mut bytes) = (stream.unwrap(), [0; 64]);
            let length = stream.read(&mut bytes).unwrap();
            stream.write_all(&bytes[..length]).unwrap();
        }
    });
    port
}

#[test]
fn name_servers_seem_to_answer_where_the_daemon_does() {
    let Some(mut stage) = Stage::new("names::name_servers_seem_to_answer_where_the_daemon_does")
    else {
        return;
    };
    // A server without an answer, one on a link, one on this machine, and one by IPv6.
    let servers = ["203.0.113.53", "10.99.1.1", "127.0.0.53", "fd99::53"];
    let servers = servers.map(|server| server.parse::<IpAddr>().unwrap());
    let ports = servers.map(|server| match server {
        IpAddr::V4(_) => answer_at(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(_) => answer_at(Ipv6Addr::LOCALHOST.into()),
    });
    let table: Vec<_> = servers.into_iter().zip(ports).collect();
    stage
        .capture
        .set_local_prefixes(&["10.99.1.0/24".parse().unwrap()])
        .unwrap();
    stage.capture.set_name_servers(&table).unwrap();
    for server in servers {
        let to = SocketAddr::new(server, 53);
        for way in ["ask", "ask-connected", "ask-tcp", "ask-mapped"] {
            if way == "ask-mapped" && server.is_ipv6() {
                continue;
            }
            let heard = stage.puppet.ask(&format!("{way} {to}"));
            assert_eq!(heard, format!("question {to} {to}"), "{way}");
        }
    }
    let again = format!("ask-in-turn {}:53 {}:53", servers[0], servers[1]);
    assert_eq!(stage.puppet.ask(&again), "question question");
    assert!(
        stage.capture.open().is_empty(),
        "no connection is placed on a link"
    );
    // Queries to other servers are unchanged, and later those to all servers.
    let refused = format!("error {}", libc::ECONNREFUSED);
    let is_refused = |answer: String| assert!(answer.starts_with(&refused), "{answer}");
    is_refused(stage.puppet.tell("ask-tcp 127.0.0.54:53"));
    stage.capture.set_name_servers(&[]).unwrap();
    is_refused(stage.puppet.tell("ask-tcp 127.0.0.53:53"));
    is_refused(stage.puppet.tell("ask-connected 127.0.0.53:53"));
}

#[test]
fn what_asks_by_its_own_address_or_is_a_resolver_itself_is_left_alone() {
    let test = "names::what_asks_by_its_own_address_or_is_a_resolver_itself_is_left_alone";
    let Some(mut stage) = Stage::new(test) else {
        return;
    };
    let port = answer_at(Ipv4Addr::LOCALHOST.into());
    let server = stage
        .ground
        .at_server(|| UdpSocket::bind((SERVER4, 53)).unwrap());
    std::thread::spawn(move || {
        let mut bytes = [0; 64];
        while let Ok((_, from)) = server.recv_from(&mut bytes) {
            server.send_to(b"itself", from).unwrap();
        }
    });
    let table = [(SERVER4.parse().unwrap(), port)];
    stage.capture.set_name_servers(&table).unwrap();
    let to = format!("{SERVER4}:53");
    let by_stub = format!("question {to} {to}");
    let by_itself = format!("itself {to} {to}");
    assert_eq!(stage.puppet.ask(&format!("ask {to}")), by_stub);
    let bound = stage.puppet.ask(&format!("ask-from 10.99.1.2:0 {to}"));
    assert_eq!(bound, by_itself);
    for way in ["ask-marked", "ask-connected-marked"] {
        assert_eq!(stage.puppet.ask(&format!("{way} {to}")), by_itself, "{way}");
    }
    stage.puppet.ask("name systemd-resolve");
    for way in ["ask", "ask-connected"] {
        assert_eq!(stage.puppet.ask(&format!("{way} {to}")), by_itself, "{way}");
    }
}
