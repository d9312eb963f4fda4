//! The proxy port with a password.

mod common;

use std::sync::Arc;

use common::http::server;
use common::{Proxy, echo, in_time, read_all, read_exactly, read_head, serve};
use hawser_front::proxy::{Credentials, Malformed, ProxyConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

/// A proxy that asks for `me` and `secret`.
async fn proxy() -> Proxy {
    let config = ProxyConfig {
        credentials: Some(Arc::new(Credentials::parse("me:secret").unwrap())),
        ..ProxyConfig::default()
    };
    Proxy::with(config, Semaphore::MAX_PERMITS).await
}

async fn say(proxy: &Proxy, bytes: &[u8]) -> TcpStream {
    let mut client = proxy.client().await;
    client.write_all(bytes).await.unwrap();
    client
}

async fn is_over(client: &mut TcpStream) -> bool {
    in_time(client.read(&mut [0]))
        .await
        .is_ok_and(|read| read == 0)
}

#[tokio::test]
async fn socks5_needs_the_right_user_name_and_password() {
    let proxy = proxy().await;
    let port = serve(echo).await.to_be_bytes();
    let request = [&b"\x05\x01\x00\x03\x0bserver.test"[..], &port].concat();
    let login = b"\x05\x02\x00\x02\x01\x02me\x06secret";
    let mut client = say(&proxy, &[&login[..], &request, b"hello"].concat()).await;
    let answers = read_exactly(&mut client, 4 + 10 + 5).await;
    assert_eq!(answers[..6], [5, 2, 1, 0, 5, 0]);
    assert_eq!(answers[14..], *b"hello");

    for wrong in [
        &b"\x01\x02me\x06Secret"[..],
        b"\x01\x02me\x00",
        b"\x01\x00\x06secret",
    ] {
        let bytes = [&b"\x05\x01\x02"[..], wrong, &request].concat();
        let mut client = say(&proxy, &bytes).await;
        assert_eq!(read_exactly(&mut client, 4).await, [5, 2, 1, 1]);
        assert!(is_over(&mut client).await);
    }
    // Greetings without the password method; the second one is followed by a request at once.
    for bytes in [
        &b"\x05\x01\x00"[..],
        &[&b"\x05\x01\x00"[..], &request].concat(),
    ] {
        let mut client = say(&proxy, bytes).await;
        assert_eq!(read_exactly(&mut client, 2).await, [5, 0xff]);
        assert!(is_over(&mut client).await);
    }
    let stats = proxy
        .until(|stats| stats.malformed.values().sum::<u64>() == 5)
        .await;
    assert_eq!(stats.malformed[&Malformed::Password], 3);
    assert_eq!(stats.malformed[&Malformed::AuthenticationMethod], 2);
    assert_eq!(proxy.dialed().len(), 1);
}

#[tokio::test]
async fn socks4_which_has_no_password_is_refused() {
    let proxy = proxy().await;
    let mut client = say(&proxy, b"\x04\x01\x00\x50\x01\x02\x03\x04me\0").await;
    assert_eq!(read_exactly(&mut client, 8).await[..2], [0, 0x5b]);
    assert!(is_over(&mut client).await);
    let stats = proxy.until(|stats| !stats.malformed.is_empty()).await;
    assert_eq!(stats.malformed[&Malformed::AuthenticationMethod], 1);
    assert!(proxy.dialed().is_empty());
}

#[tokio::test]
async fn http_needs_it_with_every_request_and_the_server_never_sees_it() {
    let proxy = proxy().await;
    let (port, _, mut seen) = server().await;
    let get = |field: &str| {
        let url = format!("http://server.test:{port}/1");
        format!("GET {url} HTTP/1.1\r\nHost: server.test\r\n{field}\r\n")
    };
    let right = get("proxy-authorization: Basic bWU6c2VjcmV0\r\n");
    let mut client = proxy.client().await;
    for _ in 0..2 {
        client.write_all(right.as_bytes()).await.unwrap();
        let head = read_head(&mut client).await;
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        read_exactly(&mut client, 5).await;
        let forwarded = in_time(seen.recv()).await.unwrap().to_ascii_lowercase();
        assert!(!forwarded.contains("authorization"), "{forwarded}");
    }
    // A login on one request does not admit the next one on the connection.
    client.write_all(get("").as_bytes()).await.unwrap();
    let refusal = read_all(&mut client).await;
    assert!(refusal.starts_with("HTTP/1.1 407 "), "{refusal}");
    assert!(
        refusal.contains("\r\nProxy-Authenticate: Basic realm=\"hawser\""),
        "{refusal}"
    );

    let twice = "Proxy-Authorization: Basic bWU6c2VjcmV0\r\n".repeat(2);
    for field in ["Proxy-Authorization: Basic bWU6U2VjcmV0\r\n", &twice] {
        let mut client = say(&proxy, get(field).as_bytes()).await;
        let refusal = read_all(&mut client).await;
        assert!(refusal.starts_with("HTTP/1.1 407 "), "{refusal}");
    }
    assert_eq!(proxy.dialed().len(), 1);
    let stats = proxy.until(|stats| !stats.malformed.is_empty()).await;
    assert_eq!(stats.malformed[&Malformed::Password], 1);
}

#[tokio::test]
async fn a_tunnel_needs_it_too() {
    let proxy = proxy().await;
    let port = serve(echo).await;
    let connect = |field: &str| {
        let host = format!("server.test:{port}");
        format!("CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n{field}\r\n")
    };
    let mut client = say(&proxy, connect("").as_bytes()).await;
    let refusal = read_all(&mut client).await;
    assert!(refusal.starts_with("HTTP/1.1 407 "), "{refusal}");
    let right = connect("Proxy-Authorization: Basic bWU6c2VjcmV0\r\n");
    let mut client = say(&proxy, format!("{right}hello").as_bytes()).await;
    let head = read_head(&mut client).await;
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert_eq!(read_exactly(&mut client, 5).await, b"hello");
    assert_eq!(proxy.dialed().len(), 1);
}
