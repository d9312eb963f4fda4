//! The proxy port with SOCKS5 clients that send datagrams.

mod common;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use common::{FakeDialer, in_time, read_exactly};
use hawser_front::datagram::{DirectLimits, DirectPorts, PlaceFlows, Placement, Target};
use hawser_front::proxy::{Malformed, ProxyConfig, ProxyCounters, ProxyServer};
use hawser_front::resolve::SystemResolver;
use hawser_front::transport::DialError;
use hawser_link::links::Link;
use hawser_types::LinkIndex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

/// Sends all flows by the system's routes.
struct Routes;

impl PlaceFlows for Routes {
    type Books = ();

    fn place(&self, _target: Target<'_>, _tried: &[LinkIndex]) -> Result<Placement<()>, DialError> {
        let (link, books) = (None, ());
        Ok(Placement { link, books })
    }

    async fn goes_by_routes(&self, _address: IpAddr) -> bool {
        true
    }

    fn stays(&self, _link: &Link, _remote: IpAddr) -> bool {
        true
    }

    fn is_suspect(&self, _link: LinkIndex) -> bool {
        false
    }

    fn on_miss(&self, _link: LinkIndex, _waited: Duration) {}
}

async fn start(config: ProxyConfig) -> (SocketAddr, Arc<ProxyCounters>) {
    let config = ProxyConfig {
        listen: "127.0.0.1:0".parse().unwrap(),
        ..config
    };
    let dialer = Arc::new(FakeDialer::new(0));
    let server = ProxyServer::bind(config, dialer).await.unwrap();
    let server = server.with_datagrams(Arc::new(DirectPorts::with_resolver(
        Routes,
        SystemResolver::new(),
        DirectLimits::default(),
    )));
    let (address, counters) = (server.local_addr(), server.counters());
    tokio::spawn(server.run(std::future::pending()));
    (address, counters)
}

/// A SOCKS5 client that sends from a port of its own.
struct Client {
    connection: TcpStream,
    socket: UdpSocket,
    relay: SocketAddr,
}

impl Client {
    async fn associate(proxy: SocketAddr) -> Self {
        let (connection, code, relay) = ask(proxy).await;
        assert_eq!(code, 0);
        Self {
            connection,
            socket: UdpSocket::bind("127.0.0.1:0").await.unwrap(),
            relay,
        }
    }

    async fn send(&self, to: SocketAddr, payload: &[u8]) {
        let datagram = [&[0, 0, 0][..], &address(to), payload].concat();
        self.socket.send_to(&datagram, self.relay).await.unwrap();
    }

    /// Receives a datagram; returns the source that it names, as bytes, and its payload.
    async fn receive(&self) -> (Vec<u8>, Vec<u8>) {
        let mut bytes = vec![0; 70_000];
        let (length, from) = in_time(self.socket.recv_from(&mut bytes)).await.unwrap();
        assert_eq!(from, self.relay);
        assert_eq!(bytes[..3], [0, 0, 0]);
        (bytes[3..10].to_vec(), bytes[10..length].to_vec())
    }
}

async fn ask(proxy: SocketAddr) -> (TcpStream, u8, SocketAddr) {
    let mut connection = TcpStream::connect(proxy).await.unwrap();
    let request = [5, 1, 0, 5, 3, 0, 1, 0, 0, 0, 0, 0, 0];
    connection.write_all(&request).await.unwrap();
    let answer = read_exactly(&mut connection, 12).await;
    assert_eq!(answer[..3], [5, 0, 5]);
    let port = u16::from_be_bytes([answer[10], answer[11]]);
    let ip: [u8; 4] = answer[6..10].try_into().unwrap();
    (connection, answer[3], SocketAddr::from((ip, port)))
}

fn address(of: SocketAddr) -> Vec<u8> {
    let SocketAddr::V4(of) = of else {
        panic!("an IPv4 address");
    };
    [&[1][..], &of.ip().octets(), &of.port().to_be_bytes()].concat()
}

/// Answers each datagram with itself, reversed.
async fn mirror() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let at = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let mut bytes = vec![0; 70_000];
        loop {
            let (length, from) = socket.recv_from(&mut bytes).await.unwrap();
            bytes[..length].reverse();
            socket.send_to(&bytes[..length], from).await.unwrap();
        }
    });
    at
}

async fn until(counters: &ProxyCounters, condition: impl Fn(&ProxyCounters) -> bool) {
    in_time(async {
        while !condition(counters) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn several_servers_answer_one_client_each_under_its_own_address() {
    let (proxy, counters) = start(ProxyConfig::default()).await;
    let client = Client::associate(proxy).await;
    let servers = [mirror().await, mirror().await, mirror().await];
    for (server, text) in servers.into_iter().zip([&b"abc"[..], b"", b"xyz"]) {
        client.send(server, text).await;
        let reversed = text.iter().rev().copied().collect();
        assert_eq!(client.receive().await, (address(server), reversed));
    }
    let large = vec![7; 60_000];
    client.send(servers[0], &large).await;
    assert_eq!(client.receive().await, (address(servers[0]), large));
    let stats = counters.snapshot();
    assert_eq!((stats.datagrams_up, stats.datagrams_down), (4, 4));
    assert_eq!(stats.bytes_up.as_u64(), 60_006);
    assert_eq!((stats.associations, stats.datagrams_dropped), (1, 0));
}

#[tokio::test]
async fn a_name_goes_to_its_address() {
    let (proxy, _) = start(ProxyConfig::default()).await;
    let client = Client::associate(proxy).await;
    let server = mirror().await;
    let port = server.port().to_be_bytes();
    let datagram = [&b"\0\0\0\x03\x09localhost"[..], &port, b"abc"].concat();
    client
        .socket
        .send_to(&datagram, client.relay)
        .await
        .unwrap();
    assert_eq!(client.receive().await, (address(server), b"cba".to_vec()));
}

#[tokio::test]
async fn fragments_garbage_and_strangers_are_dropped_and_the_rest_goes_on() {
    let (proxy, counters) = start(ProxyConfig::default()).await;
    let client = Client::associate(proxy).await;
    let server = mirror().await;
    client.send(server, b"first").await;
    client.receive().await;
    let fragment = [&[0, 0, 1][..], &address(server), b"part"].concat();
    let stranger = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let whole = [&[0, 0, 0][..], &address(server), b"not mine"].concat();
    stranger.send_to(&whole, client.relay).await.unwrap();
    for bytes in [&fragment[..], b"", b"\0\0\0\x09", b"\0\0\0\x01\x7f"] {
        client.socket.send_to(bytes, client.relay).await.unwrap();
    }
    client.send(server, b"last").await;
    assert_eq!(client.receive().await, (address(server), b"tsal".to_vec()));
    let stats = counters.snapshot();
    assert_eq!((stats.datagrams_up, stats.datagrams_dropped), (2, 5));
    assert_eq!(stats.malformed[&Malformed::Fragment], 1);
    assert_eq!(stats.malformed[&Malformed::Truncated], 2);
    assert_eq!(stats.malformed[&Malformed::AddressType], 1);
}

#[tokio::test]
async fn an_association_ends_with_its_connection() {
    let (proxy, counters) = start(ProxyConfig::default()).await;
    let client = Client::associate(proxy).await;
    let port = client.relay;
    assert!(UdpSocket::bind(port).await.is_err(), "the port is taken");
    drop(client.connection);
    until(&counters, |counters| counters.snapshot().current == 0).await;
    assert_eq!(counters.snapshot().associations, 0);
    UdpSocket::bind(port).await.expect("the port is free");
}

#[tokio::test]
async fn what_comes_on_the_connection_afterwards_is_passed_over() {
    let (proxy, _) = start(ProxyConfig::default()).await;
    let mut client = Client::associate(proxy).await;
    client.connection.write_all(&[9; 10_000]).await.unwrap();
    let server = mirror().await;
    client.send(server, b"abc").await;
    assert_eq!(client.receive().await.1, b"cba");
}

#[tokio::test]
async fn more_associations_than_allowed_are_refused() {
    let config = ProxyConfig {
        max_associations: 1,
        ..ProxyConfig::default()
    };
    let (proxy, counters) = start(config).await;
    let first = Client::associate(proxy).await;
    let (mut refused, code, _) = ask(proxy).await;
    assert_eq!(code, 1);
    assert_eq!(refused.read(&mut [0]).await.unwrap(), 0);
    drop(first);
    until(&counters, |counters| counters.snapshot().associations == 0).await;
    Client::associate(proxy).await;
}

#[tokio::test]
async fn without_ports_for_datagrams_the_command_is_not_known() {
    let proxy = common::Proxy::start().await;
    assert_eq!(ask(proxy.address).await.1, 7);
    let counted = |reasons: &BTreeMap<Malformed, u64>| reasons.get(&Malformed::Command) == Some(&1);
    proxy.until(|stats| counted(&stats.malformed)).await;
}
