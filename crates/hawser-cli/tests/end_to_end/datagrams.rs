//! Datagrams of a SOCKS5 client over two real links, to a server in another network namespace.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::mpsc::Sender;
use std::time::Duration;

use hawser_skip::namespace::{Neighbour, in_namespace};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use super::connections::{run, serve_there, two_links};
use super::program::{Daemon, Place};

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

    /// Asks until there is an answer, as programs do that use datagrams; the address under which the
    /// server saw the question.
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
