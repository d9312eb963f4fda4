//! A malicious gateway, and hosts behind such a gateway.

use std::io::Write as _;
use std::net::{TcpListener, UdpSocket};

use hawser_skip::namespace::{in_namespace_of_root, ip};

use super::internet::{Internet, local_python, said};
use super::program::{Daemon, until};

#[test]
fn hosts_behind_a_gateway_reach_a_client_only_if_it_wants_that() {
    let test = "inbound::hosts_behind_a_gateway_reach_a_client_only_if_it_wants_that";
    in_namespace_of_root(test, || {
        let Some(net) = Internet::captured(test) else {
            return;
        };
        net.add_ipv6();
        net.server.ip("route add 10.83.0.0/16 via 11.0.0.1");
        net.server
            .ip("-6 route add fd48:6177:7365:72::/64 via 2a00:11::1");
        answer();
        let gateway = net.serve_with(&["--packet-exit", "routed"]);
        let client = net.up(&["--gateway", &net.place.invite()]);
        let log = |client: &Daemon| format!("{}\n{}", client.log(), gateway.log());
        // What the client begins is answered.
        assert_eq!(begun(), "True True", "{}", log(&client));
        assert_eq!(reached(&net), "[]", "{}", log(&client));
        assert_eq!(begun(), "True True", "{}", log(&client));
        let refused = || {
            let status = net.place.status("client").unwrap();
            status["counters"]["sessions-packets-refused"].as_u64()
        };
        let are_counted = || refused() >= Some(4);
        until("they are counted", are_counted, || {
            format!("{:?} {}", refused(), log(&client))
        });
        client.end();
        let client = net.up(&["--accept-inbound"]);
        let all = "['10.83.0.2 1', '10.83.0.2 2', 'fd48:6177:7365:72::2 1', \
                   'fd48:6177:7365:72::2 2']";
        assert_eq!(reached(&net), all, "{}", log(&client));
        client.end();
        gateway.end();
    });
}

#[test]
fn an_inner_address_that_is_near_the_client_is_not_taken() {
    let test = "inbound::an_inner_address_that_is_near_the_client_is_not_taken";
    in_namespace_of_root(test, || {
        let Some(net) = Internet::captured(test) else {
            return;
        };
        ip("link add lan0 type veth peer name lan1");
        ip("link set lan0 up");
        ip("link set lan1 up");
        ip("address add 10.83.0.200/24 dev lan0");
        let gateway = net.serve();
        let invite = net.place.invite();
        let flags = ["up", "--listen", "127.0.0.1:0", "--capture", "system"];
        let flags = [&flags[..], &["--link", "dsl", "--gateway", &invite]].concat();
        let client = net.place.launch("client", &flags);
        let log = || format!("{}\n{}", client.log(), gateway.log());
        let told =
            "the gateway gives the inner address 10.83.0.2/32, but 10.83.0.0/24 is on a link";
        until("it is told", || client.log().contains(told), log);
        let has_address =
            || said(std::process::Command::new("ip").arg("addr")).contains("10.83.0.2/");
        assert!(!has_address(), "{}", log());
        ip("address del 10.83.0.200/24 dev lan0");
        until("it is taken once it is not near", has_address, log);
        client.end();
        gateway.end();
    });
}

/// Services of the client's machine, on all its addresses.
fn answer() {
    let listener = TcpListener::bind("[::]:8000").unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = stream.unwrap().write_all(b"here");
        }
    });
    let socket = UdpSocket::bind("[::]:8000").unwrap();
    std::thread::spawn(move || {
        let mut bytes = [0; 100];
        while let Ok((length, from)) = socket.recv_from(&mut bytes) {
            let _ = socket.send_to(&bytes[..length], from);
        }
    });
}

/// Whether connections from this machine are answered: a datagram, and a ping.
fn begun() -> String {
    said(&mut local_python(BEGUN))
}

/// Returns the client's services that answer a host behind the gateway.
fn reached(net: &Internet) -> String {
    let mut python = net.server.command("python3");
    said(python.args(["-c", REACHED]))
}

const BEGUN: &str = "
p = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
ping = bytes([8, 0, 0xf7, 0xf5, 0, 9, 0, 1])
def is_answered():
    p.settimeout(1)
    p.sendto(ping, ('11.0.0.2', 0))
    try:
        return p.recv(100)[20] == 0
    except OSError:
        return False
print(echo(udp(), ('11.0.0.2', 7), b'x'), any(is_answered() for i in range(10)))
";
const REACHED: &str = "
import socket
reached = []
for to in ['10.83.0.2', 'fd48:6177:7365:72::2']:
    family = socket.AF_INET6 if ':' in to else socket.AF_INET
    for kind in [socket.SOCK_STREAM, socket.SOCK_DGRAM]:
        for attempt in range(3):
            s = socket.socket(family, kind)
            s.settimeout(2)
            try:
                s.connect((to, 8000))
                s.send(b'x')
                if s.recv(100):
                    reached.append(f'{to} {int(kind)}')
                    break
            except OSError:
                pass
print(reached)
";
