//! Datagrams of a SOCKS5 client over two real links, to a server in another network namespace.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::mpsc::Sender;
use std::time::Duration;

use hawser_skip::namespace::{Neighbour, in_namespace};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use super::choice::gateway;
use super::connections::{run, serve_there, two_links};
use super::program::{Daemon, Place, tcp_channels, until};

#[test]
fn datagrams_use_both_links_and_leave_one_that_is_gone() {
    in_namespace(
        "datagrams::datagrams_use_both_links_and_leave_one_that_is_gone",
        || {
            lose(|neighbour| neighbour.ip("link set dsl down"));
        },
    );
}

#[test]
fn datagrams_leave_a_link_that_swallows_them() {
    in_namespace(
        "datagrams::datagrams_leave_a_link_that_swallows_them",
        || {
            lose(|neighbour| neighbour.ip("route add blackhole 10.1.0.2/32"));
        },
    );
}

#[test]
fn a_gateway_carries_datagrams_to_addresses_and_names_and_nowhere_else() {
    let place = Place::new();
    let gateway = place.serve();
    let up = place.up("client", &["--gateway", &place.invite()]);
    let proxy = up.listen(&place).unwrap().parse().unwrap();
    run(async move {
        let mirror = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let port = mirror.local_addr().unwrap().port().to_be_bytes();
        tokio::spawn(async move {
            let mut bytes = vec![0; 65_536];
            while let Ok((length, from)) = mirror.recv_from(&mut bytes).await {
                let _ = mirror.send_to(&bytes[..length], from).await;
            }
        });
        let client = Client::associate(proxy).await;
        let by_address = [&[1, 127, 0, 0, 1][..], &port].concat();
        let by_name = [&b"\x03\x09localhost"[..], &port].concat();
        // A destination that the gateway refuses.
        client.send(&[1, 10, 0, 0, 1, 0, 53], b"lost").await;
        for (payload, to) in [
            (&b"first"[..], &by_address),
            (b"", &by_address),
            (&[7; 9000], &by_address),
            (b"by name", &by_name),
            (b"again", &by_name),
        ] {
            client.send(to, payload).await;
            let expected = [&[0, 0, 0][..], &by_address, payload].concat();
            assert_eq!(client.receive().await, expected, "{}", up.log());
        }
        let status = place.status("gateway").unwrap();
        let counters = &status["counters"];
        assert_eq!(counters["gateway-refused-refused-by-policy"], 1, "{status}");
        assert_eq!(counters["gateway-connected"], 2, "{status}");
        let sent = &status["sessions"][0]["counters"]["datagrams-sent"];
        assert_eq!(*sent, 5, "{status}");
        let destination = &status["sessions"][0]["streams"][0]["destination"];
        assert!(destination.as_str().unwrap().ends_with("(udp)"), "{status}");
        drop(client);
        until(
            "the flows end with the association",
            || place.status("gateway").unwrap()["counters"]["gateway-current"] == 0,
            || gateway.log(),
        );
        up.end();
        gateway.end();
    });
}

#[test]
fn datagrams_to_a_gateway_go_on_when_a_link_swallows_them() {
    in_namespace(
        "datagrams::datagrams_to_a_gateway_go_on_when_a_link_swallows_them",
        lose_beneath_a_gateway,
    );
}

fn lose_beneath_a_gateway() {
    let (place, neighbour) = (Place::new(), two_links());
    serve_there(&neighbour, name_senders);
    let gateway = gateway(&place, &neighbour);
    let arguments = ["up", "--listen", "127.0.0.1:0", "--gateway"];
    let up = place.start("client", &[&arguments[..], &[&place.invite()]].concat());
    let proxy = up.listen(&place).unwrap().parse().unwrap();
    let carried = || -> Vec<usize> {
        let status = place.status("client").unwrap();
        let paths = status["sessions"][0]["paths"].as_array().unwrap();
        paths.iter().map(tcp_channels).collect()
    };
    until("both links are used", || carried() == [2, 2], || up.log());
    run(async move {
        let client = Client::associate(proxy).await;
        for round in 0..100 {
            if round == 50 {
                neighbour.ip("route add blackhole 10.1.0.2/32");
            }
            client.ask(FIRST_PORT + round % FLOWS, &up).await;
        }
        // The flows are the ones of the beginning: they did not end with the link.
        let status = place.status("client").unwrap();
        let opened = &status["sessions"][0]["counters"]["streams-opened"];
        assert_eq!(*opened, FLOWS, "{status}");
        drop(client);
        up.end();
        gateway.end();
    });
}

/// Loses a link under flows that were answered on it, and under new ones.
fn lose(cut: impl FnOnce(&Neighbour)) {
    let (place, neighbour) = (Place::new(), two_links());
    serve_there(&neighbour, name_senders);
    let daemon = place.start("client", &["up", "--listen", "127.0.0.1:0"]);
    let proxy = daemon.listen(&place).unwrap().parse().unwrap();
    run(async move {
        let client = Client::associate(proxy).await;
        let mut before = BTreeSet::new();
        for port in FIRST_PORT..FIRST_PORT + FLOWS {
            before.insert(client.ask(port, &daemon).await);
        }
        let both = ["10.1.0.2", "10.2.0.2"].map(|ip| ip.parse().unwrap());
        assert_eq!(before, BTreeSet::from(both), "{}", daemon.log());
        cut(&neighbour);
        for port in FIRST_PORT..FIRST_PORT + 2 * FLOWS {
            assert_eq!(client.ask(port, &daemon).await, both[1], "{}", daemon.log());
        }
        let counters = place.status("client").unwrap()["counters"].clone();
        assert_eq!(counters["proxy-associations"], 1, "{counters}");
        drop(client);
        daemon.end();
    });
}

/// Answers every datagram with the address that it came from, on many ports.
async fn name_senders(ready: Sender<()>) {
    let mut servers = Vec::new();
    for port in FIRST_PORT..FIRST_PORT + 2 * FLOWS {
        let socket = UdpSocket::bind((SERVER, port)).await.unwrap();
        servers.push(tokio::spawn(async move {
            let mut bytes = [0; 64];
            while let Ok((_, from)) = socket.recv_from(&mut bytes).await {
                let name = from.ip().to_string();
                let _ = socket.send_to(name.as_bytes(), from).await;
            }
        }));
    }
    ready.send(()).unwrap();
    for server in servers {
        server.await.unwrap();
    }
}

struct Client {
    _connection: TcpStream,
    socket: UdpSocket,
}

impl Client {
    async fn associate(proxy: SocketAddr) -> Self {
        let mut connection = TcpStream::connect(proxy).await.unwrap();
        let request = [5, 1, 0, 5, 3, 0, 1, 0, 0, 0, 0, 0, 0];
        connection.write_all(&request).await.unwrap();
        let mut reply = [0; 12];
        connection.read_exact(&mut reply).await.unwrap();
        let [5, 0, 5, 0, 0, 1, a, b, c, d, high, low] = reply else {
            panic!("refused: {reply:?}");
        };
        let relay = SocketAddrV4::new([a, b, c, d].into(), u16::from_be_bytes([high, low]));
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        socket.connect(relay).await.unwrap();
        Self {
            _connection: connection,
            socket,
        }
    }

    async fn send(&self, to: &[u8], payload: &[u8]) {
        let datagram = [&[0, 0, 0][..], to, payload].concat();
        self.socket.send(&datagram).await.unwrap();
    }

    async fn receive(&self) -> Vec<u8> {
        let mut bytes = vec![0; 65_536];
        let received = timeout(Duration::from_secs(20), self.socket.recv(&mut bytes));
        let length = received.await.expect("an answer").unwrap();
        bytes.truncate(length);
        bytes
    }

    /// Asks until there is an answer, as programs with datagrams do; returns the source address
    /// that the server saw.
    async fn ask(&self, port: u16, daemon: &Daemon) -> Ipv4Addr {
        let address = [&[0, 0, 0, 1][..], &SERVER.octets(), &port.to_be_bytes()].concat();
        let mut bytes = [0; 64];
        for _ in 0..TRIES {
            let question = [&address[..], b"?"].concat();
            self.socket.send(&question).await.unwrap();
            let answer = async {
                loop {
                    let length = self.socket.recv(&mut bytes).await.unwrap();
                    // Others may be answers to what was asked twice.
                    if bytes[..10] == address[..] {
                        return String::from_utf8(bytes[10..length].to_vec()).unwrap();
                    }
                }
            };
            if let Ok(answer) = timeout(AGAIN, answer).await {
                return answer.parse().unwrap();
            }
        }
        panic!("no answer: {}", daemon.log());
    }
}

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
const FIRST_PORT: u16 = 7100;
const FLOWS: u16 = 12;
const AGAIN: Duration = Duration::from_millis(250);
const TRIES: u32 = 80;
