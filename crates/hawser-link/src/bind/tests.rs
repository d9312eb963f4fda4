use std::os::fd::AsFd as _;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use crate::links::list_links;
use hawser_skip::ClosedPort;
use hawser_skip::namespace::{Neighbour, in_namespace, ip};

fn loopback(address: &str) -> Link {
    Link::loopback(address.parse().unwrap())
}

/// Options for connections that get no answer. On a busy machine an answer may take longer.
fn quick() -> SocketOptions {
    SocketOptions {
        connect_timeout: Duration::from_millis(300),
        ..SocketOptions::default()
    }
}

#[tokio::test]
async fn a_connection_is_bound_to_its_link_and_address_and_has_its_options() {
    let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let remote = listener.local_addr().unwrap();
    let options = SocketOptions {
        congestion: Some("reno".to_owned()),
        not_sent_low_water: Some(ByteCount::from_kib(16)),
        ..SocketOptions::default()
    };
    let link = loopback("127.0.0.9");
    let stream = connect_on_link(Some(&link), remote, &options)
        .await
        .unwrap();
    assert_eq!(stream.local_addr().unwrap().ip().to_string(), "127.0.0.9");
    assert!(stream.nodelay().unwrap());
    let socket = SockRef::from(&stream);
    assert_eq!(socket.device().unwrap().as_deref(), Some(&b"lo"[..]));
    assert_eq!(socket.tcp_notsent_lowat().unwrap(), 16 << 10);
    assert!(socket.tcp_congestion().unwrap().starts_with(b"reno"));
    let (_accepted, from) = listener.accept().await.unwrap();
    assert_eq!(from, stream.local_addr().unwrap());
}

#[tokio::test]
async fn multipath_is_offered_by_its_link_and_falls_back_to_a_plain_connection() {
    let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let remote = listener.local_addr().unwrap();
    let options = SocketOptions {
        mptcp: true,
        ..SocketOptions::default()
    };
    let link = loopback("127.0.0.9");
    let connected = connect_on_link(Some(&link), remote, &options).await;
    let mut stream = connected.unwrap();
    let socket = SockRef::from(&stream);
    let expected = match open_mptcp_socket(remote) {
        Ok(_) => Protocol::MPTCP,
        Err(_) => Protocol::TCP,
    };
    assert_eq!(socket.protocol().unwrap(), Some(expected));
    assert_eq!(socket.device().unwrap().as_deref(), Some(&b"lo"[..]));
    assert_eq!(stream.local_addr().unwrap().ip().to_string(), "127.0.0.9");
    // The listener is plain TCP.
    let (mut accepted, _) = listener.accept().await.unwrap();
    accepted.write_all(b"x").await.unwrap();
    assert_eq!(stream.read_u8().await.unwrap(), b'x');
    assert!(crate::tcp_info::read(&stream).unwrap().srtt.is_some());
}

#[tokio::test]
async fn without_a_link_the_system_chooses() {
    let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let remote = listener.local_addr().unwrap();
    let stream = connect_on_link(None, remote, &SocketOptions::default())
        .await
        .unwrap();
    assert_eq!(SockRef::from(&stream).device().unwrap(), None);
}

#[tokio::test]
async fn the_unspecified_ipv6_address_takes_ipv4_connections_too() {
    let Ok(listener) = listen("[::]:0".parse().unwrap()) else {
        return eprintln!("skipped: no IPv6 here");
    };
    let port = listener.local_addr().unwrap().port();
    let remote = SocketAddr::new("127.0.0.1".parse().unwrap(), port);
    let mapped = SocketAddr::new("::ffff:127.0.0.1".parse().unwrap(), port);
    for remote in [remote, mapped] {
        let link = loopback("127.0.0.1");
        connect_on_link(Some(&link), remote, &SocketOptions::default())
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn failures_are_told_apart() {
    let port = ClosedPort::new();
    let closed = port.address();
    let link = loopback("127.0.0.1");
    let options = SocketOptions::default();
    let refused = connect_on_link(Some(&link), closed, &options)
        .await
        .unwrap_err();
    assert!(
        matches!(refused, ConnectError::Refused { remote } if remote == closed),
        "{refused}"
    );
    assert!(!refused.is_local(), "a packet has gone there");

    let other_family = loopback("::1");
    let error = connect_on_link(Some(&other_family), closed, &options)
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "link lo has no ipv4 address; give it one, or use an address of another family"
    );

    let lost = loopback("192.0.2.77");
    let error = connect_on_link(Some(&lost), closed, &options)
        .await
        .unwrap_err();
    assert!(matches!(error, ConnectError::AddressGone { .. }), "{error}");
    assert!(error.is_local());

    let gone = Link {
        index: LinkIndex::new(1 << 30),
        name: "gone".to_owned(),
        ..link.clone()
    };
    let error = connect_on_link(Some(&gone), closed, &options)
        .await
        .unwrap_err();
    assert_eq!(error.to_string(), "link gone is gone");
    assert!(error.is_local());

    let unknown = SocketOptions {
        congestion: Some("nope".to_owned()),
        ..options
    };
    let error = connect_on_link(Some(&link), closed, &unknown)
        .await
        .unwrap_err();
    assert!(matches!(error, ConnectError::Congestion { .. }), "{error}");
    assert_eq!(io::Error::from(error).kind(), io::ErrorKind::NotFound);
}

#[tokio::test]
async fn options_can_be_changed_on_a_live_connection() {
    let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap())
        .await
        .unwrap();
    set_not_sent_low_water(&stream, ByteCount::new(4321)).unwrap();
    assert_eq!(
        SockRef::from(&stream.as_fd()).tcp_notsent_lowat().unwrap(),
        4321
    );
    for name in allowed_congestion().unwrap() {
        set_congestion(&stream, &name).unwrap();
    }
    assert!(available_congestion().unwrap().contains(&"reno".to_owned()));
}

#[test]
fn two_links_with_the_same_address_are_both_used() {
    in_namespace(
        "bind::tests::two_links_with_the_same_address_are_both_used",
        || {
            let (router, silent) = (Neighbour::start(), Neighbour::start());
            for (link, peer, neighbour) in [("one", "uno", &router), ("two", "due", &silent)] {
                ip(&format!("link add {link} type veth peer name {peer}"));
                neighbour.take(peer);
                neighbour.ip(&format!("link set {peer} up"));
                ip(&format!("address add 192.168.8.100/24 dev {link}"));
                ip(&format!("link set {link} up"));
            }
            router.ip("address add 192.168.8.1/24 dev uno");
            ip("route add default via 192.168.8.1 dev one");
            router.ip("address add 203.0.113.1/32 dev uno");
            tokio::runtime::Runtime::new().unwrap().block_on(use_both());
        },
    );
}

/// A refusal shows that the packet used the first link, whose router exists.
async fn use_both() {
    let links = list_links().await.unwrap();
    let find = |name| links.iter().find(|link| link.name == name).unwrap();
    let (one, two) = (find("one"), find("two"));
    assert_eq!(one.addresses, two.addresses);
    let (router, patient) = ("192.168.8.1:80".parse().unwrap(), SocketOptions::default());
    let error = connect_on_link(Some(one), router, &patient)
        .await
        .unwrap_err();
    assert!(matches!(error, ConnectError::Refused { .. }), "{error}");
    let error = connect_on_link(Some(two), router, &quick())
        .await
        .unwrap_err();
    assert!(matches!(error, ConnectError::TimedOut { .. }), "{error}");
    assert!(
        error.to_string().contains("on link two within 300ms"),
        "{error}"
    );

    let internet = "203.0.113.1:80".parse().unwrap();
    let error = connect_on_link(Some(one), internet, &patient)
        .await
        .unwrap_err();
    assert!(matches!(error, ConnectError::Refused { .. }), "{error}");
    let error = connect_on_link(Some(two), internet, &quick())
        .await
        .unwrap_err();
    assert!(matches!(error, ConnectError::NoRoute { .. }), "{error}");
    assert!(
        error
            .to_string()
            .contains("ip route add default via ROUTER dev two"),
        "{error}"
    );
}

/// The system chooses by TCP alone.
#[test]
fn a_port_that_the_system_chooses_is_free_for_udp_too() {
    let test = "bind::tests::a_port_that_the_system_chooses_is_free_for_udp_too";
    in_namespace(test, || {
        ip("link set lo up");
        fs::write("/proc/sys/net/ipv4/ip_local_port_range", "40000 40007").unwrap();
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let taken: Vec<_> = (40000..40007)
            .map(|port| std::net::UdpSocket::bind(at(port)).unwrap())
            .collect();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .unwrap();
        let _entered = runtime.enter();
        let listener = listen(at(0)).unwrap();
        assert_eq!(listener.local_addr().unwrap(), at(40007));
        drop((taken, listener));
        // A requested port is used even if its UDP port is taken.
        let _taken = std::net::UdpSocket::bind(at(40001)).unwrap();
        assert_eq!(listen(at(40001)).unwrap().local_addr().unwrap(), at(40001));
    });
}
