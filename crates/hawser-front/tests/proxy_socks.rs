//! The proxy port with SOCKS clients, and behaviour that is common to all connections.

mod common;

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use common::{FakeDialer, Proxy, echo, in_time, read_all, read_exactly, serve};
use hawser_front::proxy::{Malformed, ProxyConfig, ProxyError, ProxyServer, ProxyStats};
use hawser_front::transport::{ByteStream, DialError, ResetCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

const GREETING: &[u8] = &[5, 1, 0];

fn socks5(name: &str, port: u16) -> Vec<u8> {
    let length = [u8::try_from(name.len()).unwrap()];
    let parts = [
        &[5, 1, 0, 3][..],
        &length,
        name.as_bytes(),
        &port.to_be_bytes(),
    ];
    parts.concat()
}

fn socks4a(name: &str, port: u16) -> Vec<u8> {
    let tail = [&[0, 0, 0, 1][..], b"user\0", name.as_bytes(), b"\0"].concat();
    [&[4, 1][..], &port.to_be_bytes(), &tail].concat()
}

async fn socks5_code(proxy: &Proxy, request: &[u8]) -> u8 {
    let mut client = proxy.client().await;
    client.write_all(GREETING).await.unwrap();
    assert_eq!(read_exactly(&mut client, 2).await, [5, 0]);
    client.write_all(request).await.unwrap();
    let reply = read_exactly(&mut client, 10).await;
    assert_eq!((reply[0], reply[2], reply[3]), (5, 0, 1));
    reply[1]
}

async fn tunnel(proxy: &Proxy, port: u16) -> TcpStream {
    let mut client = proxy.client().await;
    client.write_all(GREETING).await.unwrap();
    client
        .write_all(&socks5("server.test", port))
        .await
        .unwrap();
    assert_eq!(read_exactly(&mut client, 12).await[3], 0);
    client
}

#[tokio::test]
async fn names_go_to_the_dialer_unresolved() {
    let proxy = Proxy::start().await;
    let port = serve(echo).await;
    assert_eq!(
        socks5_code(&proxy, &socks5("Some.Host.test", port)).await,
        0
    );
    let mut v4 = vec![5, 1, 0, 1, 127, 0, 0, 1];
    v4.extend(port.to_be_bytes());
    assert_eq!(socks5_code(&proxy, &v4).await, 0);
    let mut v6 = vec![5, 1, 0, 4];
    v6.extend([0; 15]);
    v6.extend([1, 0, 9]);
    assert_ne!(socks5_code(&proxy, &v6).await, 0);
    let expected = [
        format!("some.host.test:{port}"),
        format!("127.0.0.1:{port}"),
        "[::1]:9".to_owned(),
    ];
    assert_eq!(proxy.dialed(), expected);
    assert_eq!(proxy.stats().socks5, 3);
}

#[tokio::test]
async fn bytes_sent_ahead_of_every_answer_are_not_lost() {
    let proxy = Proxy::start().await;
    let port = serve(echo).await;
    let mut client = proxy.client().await;
    let all = [GREETING, &socks5("server.test", port), b"early data"].concat();
    client.write_all(&all).await.unwrap();
    client.shutdown().await.unwrap();
    assert_eq!(read_exactly(&mut client, 12).await[..4], [5, 0, 5, 0]);
    assert_eq!(read_all(&mut client).await, "early data");

    let mut client = proxy.client().await;
    let all = [&socks4a("server.test", port)[..], b"early data"].concat();
    client.write_all(&all).await.unwrap();
    client.shutdown().await.unwrap();
    assert_eq!(read_exactly(&mut client, 8).await[..2], [0, 0x5a]);
    assert_eq!(read_all(&mut client).await, "early data");
    let stats = proxy.until(|stats| stats.current == 0).await;
    assert_eq!((stats.socks5, stats.socks4), (1, 1));
    assert_eq!(
        (stats.bytes_up.as_u64(), stats.bytes_down.as_u64()),
        (20, 20)
    );
}

#[tokio::test]
async fn requests_may_come_byte_by_byte() {
    let proxy = Proxy::start().await;
    let port = serve(echo).await;
    let mut client = proxy.client().await;
    client.set_nodelay(true).unwrap();
    for byte in [GREETING, &socks5("server.test", port)].concat() {
        client.write_all(&[byte]).await.unwrap();
        tokio::task::yield_now().await;
    }
    assert_eq!(read_exactly(&mut client, 12).await[3], 0);
}

#[tokio::test]
async fn failures_have_their_true_codes() {
    let proxy = Proxy::start().await;
    for (error, code) in [
        (DialError::RefusedByPolicy, 2),
        (DialError::NetworkUnreachable, 3),
        (DialError::HostUnreachable, 4),
        (DialError::NameNotFound, 4),
        (DialError::ConnectionRefused, 5),
        (DialError::TimedOut, 6),
        (DialError::GatewayUnavailable, 1),
        (DialError::LimitReached, 1),
    ] {
        let name = format!("error-{}.test", error.code());
        assert_eq!(
            socks5_code(&proxy, &socks5(&name, 80)).await,
            code,
            "{error}"
        );
        let mut client = proxy.client().await;
        client.write_all(&socks4a(&name, 80)).await.unwrap();
        assert_eq!(read_all(&mut client).await.as_bytes()[..2], [0, 0x5b]);
        proxy
            .until(|stats| stats.dial_errors.get(&error) == Some(&2))
            .await;
    }
}

#[tokio::test]
async fn what_is_not_offered_is_refused_with_its_code() {
    let proxy = Proxy::start().await;
    assert_eq!(
        socks5_code(&proxy, &[5, 2, 0, 1, 1, 2, 3, 4, 0, 80]).await,
        7
    );
    assert_eq!(
        socks5_code(&proxy, &[5, 3, 0, 1, 0, 0, 0, 0, 0, 0]).await,
        7
    );
    assert_eq!(
        socks5_code(&proxy, &[5, 1, 0, 9, 1, 2, 3, 4, 0, 80]).await,
        8
    );
    assert_eq!(socks5_code(&proxy, &socks5("not a name", 80)).await, 1);
    let mut client = proxy.client().await;
    client.write_all(&[5, 1, 2]).await.unwrap();
    assert_eq!(read_exactly(&mut client, 2).await, [5, 0xff]);
    assert_eq!(in_time(client.read(&mut [0])).await.unwrap(), 0);
    let mut client = proxy.client().await;
    client
        .write_all(&[4, 2, 0, 80, 1, 2, 3, 4, 0])
        .await
        .unwrap();
    assert_eq!(read_exactly(&mut client, 8).await[..2], [0, 0x5b]);
    let mut client = proxy.client().await;
    client.write_all(&[0x16, 3, 1]).await.unwrap();
    assert!(matches!(
        in_time(client.read(&mut [0])).await,
        Ok(0) | Err(_)
    ));
    let all = |stats: &ProxyStats| stats.malformed.values().sum::<u64>() == 7;
    let stats = proxy.until(all).await;
    assert_eq!(stats.malformed[&Malformed::Command], 3);
    assert_eq!(stats.malformed[&Malformed::AddressType], 1);
    assert_eq!(stats.malformed[&Malformed::Host], 1);
    assert_eq!(stats.malformed[&Malformed::AuthenticationMethod], 1);
    assert_eq!(stats.malformed[&Malformed::UnknownProtocol], 1);
}

#[tokio::test]
async fn success_is_told_only_after_the_dial() {
    let proxy = Proxy::with(ProxyConfig::default(), 0).await;
    let port = serve(echo).await;
    let mut client = proxy.client().await;
    client.write_all(GREETING).await.unwrap();
    client
        .write_all(&socks5("server.test", port))
        .await
        .unwrap();
    assert_eq!(read_exactly(&mut client, 2).await, [5, 0]);
    while proxy.dialed().is_empty() {
        tokio::task::yield_now().await;
    }
    let early = timeout(Duration::from_millis(50), client.read(&mut [0])).await;
    assert!(early.is_err(), "an answer before the dial has succeeded");
    proxy.dialer.gate.add_permits(1);
    assert_eq!(read_exactly(&mut client, 10).await[1], 0);
}

#[tokio::test]
async fn half_close_and_reset_travel_through_the_port() {
    let proxy = Proxy::start().await;
    let port = serve(echo).await;
    let mut client = tunnel(&proxy, port).await;
    client.write_all(b"ping").await.unwrap();
    client.shutdown().await.unwrap();
    assert_eq!(read_all(&mut client).await, "ping");

    let (seen, mut seen_here) = tokio::sync::mpsc::channel(1);
    let port = serve(move |mut stream| {
        let seen = seen.clone();
        async move {
            let kind = loop {
                match stream.read(&mut [0; 16]).await {
                    Ok(0) => break None,
                    Ok(_) => {}
                    Err(error) => break Some(error.kind()),
                }
            };
            seen.send(kind).await.unwrap();
        }
    })
    .await;
    let mut client = tunnel(&proxy, port).await;
    client.reset(ResetCode::Aborted);
    drop(client);
    let kind = in_time(seen_here.recv()).await.unwrap();
    assert_eq!(kind, Some(ErrorKind::ConnectionReset));

    let port = serve(|mut stream| async move { stream.reset(ResetCode::Aborted) }).await;
    let mut client = tunnel(&proxy, port).await;
    let error = in_time(client.read(&mut [0])).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_client_that_dawdles_is_closed_and_counted() {
    let config = ProxyConfig {
        handshake_timeout: Duration::from_millis(60),
        ..ProxyConfig::default()
    };
    let proxy = Proxy::with(config, 9).await;
    for begin in [&b""[..], &[5], &[5, 1, 0, 5], &[4, 1, 0], b"GET http://a"] {
        let mut client = proxy.client().await;
        client.write_all(begin).await.unwrap();
        let mut rest = Vec::new();
        in_time(client.read_to_end(&mut rest)).await.unwrap();
    }
    // Bytes sent one by one do not extend the deadline.
    let mut client = proxy.client().await;
    client.write_all(b"GET ").await.unwrap();
    let drip = async {
        while client.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    in_time(drip).await;
    assert_eq!(
        proxy.until(|stats| stats.current == 0).await.slow_clients,
        6
    );
    assert!(proxy.dialed().is_empty());
}

#[tokio::test]
async fn connections_above_the_limit_are_closed_and_counted() {
    let config = ProxyConfig {
        max_connections: 2,
        ..ProxyConfig::default()
    };
    let proxy = Proxy::with(config, Semaphore::MAX_PERMITS).await;
    let port = serve(echo).await;
    let mut first = tunnel(&proxy, port).await;
    let second = tunnel(&proxy, port).await;
    let mut third = proxy.client().await;
    assert_eq!(in_time(third.read(&mut [0])).await.unwrap(), 0);
    assert_eq!((proxy.stats().current, proxy.stats().over_limit), (2, 1));
    first.write_all(b"still here").await.unwrap();
    assert_eq!(read_exactly(&mut first, 10).await, b"still here");
    drop(second);
    proxy.until(|stats| stats.current == 1).await;
    let mut fourth = tunnel(&proxy, port).await;
    fourth.write_all(b"x").await.unwrap();
    assert_eq!(read_exactly(&mut fourth, 1).await, b"x");
}

#[tokio::test]
async fn stopping_resets_what_is_open() {
    let proxy = Proxy::start().await;
    let port = serve(echo).await;
    let mut client = tunnel(&proxy, port).await;
    proxy.stop().await;
    let error = in_time(client.read(&mut [0])).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn an_address_of_the_network_is_refused_unless_allowed() {
    let dialer = || Arc::new(FakeDialer::new(0));
    let config = ProxyConfig {
        listen: "0.0.0.0:0".parse().unwrap(),
        ..ProxyConfig::default()
    };
    let refused = ProxyServer::bind(config.clone(), dialer()).await;
    assert!(matches!(refused, Err(ProxyError::NotLoopback { .. })));
    let allowed = ProxyConfig {
        allow_lan: true,
        ..config.clone()
    };
    assert!(ProxyServer::bind(allowed, dialer()).await.is_ok());
    let listener = tokio::net::TcpListener::bind("0.0.0.0:0").await.unwrap();
    assert!(ProxyServer::new(listener, config, dialer()).is_err());
}

#[tokio::test]
async fn the_snapshot_is_a_flat_record() {
    let proxy = Proxy::start().await;
    socks5_code(&proxy, &socks5("error-4.test", 80)).await;
    let json = serde_json::to_value(proxy.stats()).unwrap();
    assert_eq!(json["socks5"], 1);
    assert_eq!(json["dial-errors"]["connection-refused"], 1);
    assert_eq!(json["bytes-up"], 0);
}
