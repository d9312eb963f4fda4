//! The proxy port with HTTP clients whose requests succeed.

mod common;

use std::sync::atomic::Ordering;

use common::http::{get, read_response, server};
use common::{Proxy, echo, read_all, read_exactly, read_head, serve};
use tokio::io::AsyncWriteExt;

#[tokio::test]
async fn connect_opens_a_tunnel_and_keeps_early_bytes() {
    let proxy = Proxy::start().await;
    let port = serve(echo).await;
    let mut client = proxy.client().await;
    let request = format!("CONNECT server.test:{port} HTTP/1.1\r\nHost: server.test\r\n\r\nearly");
    client.write_all(request.as_bytes()).await.unwrap();
    let head = read_head(&mut client).await;
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    client.write_all(b" and late").await.unwrap();
    client.shutdown().await.unwrap();
    assert_eq!(read_all(&mut client).await, "early and late");
    assert_eq!(proxy.stats().http_tunnels, 1);
}

#[tokio::test]
async fn requests_of_one_client_share_connections_by_server() {
    let proxy = Proxy::start().await;
    let (port, connections, mut seen) = server().await;
    let (other_port, other_connections, _) = server().await;
    let mut client = proxy.client().await;
    for path in ["/1", "/204", "/304", "/2"] {
        client.write_all(&get(port, path)).await.unwrap();
        let head = read_head(&mut client).await;
        assert!(!head.contains("Connection"), "{head}");
        if path.len() == 2 {
            assert_eq!(read_exactly(&mut client, 5).await, b"hello");
        }
    }
    let head = seen.recv().await.unwrap();
    assert_eq!(
        head,
        format!("GET /1 HTTP/1.1\r\nHost: server.test:{port}\r\n\r\n")
    );
    client.write_all(&get(other_port, "/1")).await.unwrap();
    assert_eq!(read_response(&mut client).await.1, "hello");
    assert_eq!(connections.load(Ordering::Relaxed), 1);
    assert_eq!(other_connections.load(Ordering::Relaxed), 1);
    assert_eq!(proxy.stats().http_requests, 5);
    assert_eq!(proxy.stats().accepted, 1);
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let proxy = Proxy::start().await;
    let (port, ..) = server().await;
    let mut client = proxy.client().await;
    let both = [get(port, "/1"), get(port, "/chunked"), get(port, "/close")].concat();
    client.write_all(&both).await.unwrap();
    assert_eq!(read_response(&mut client).await.1, "hello");
    let head = read_head(&mut client).await;
    assert!(head.contains("Transfer-Encoding: chunked"));
    let body = read_exactly(&mut client, 30).await;
    assert_eq!(body, b"3\r\nabc\r\n4;x\r\ndefg\r\n0\r\nT: 1\r\n\r\n"[..30]);
    let rest = read_all(&mut client).await;
    assert!(rest.contains("Connection: close"), "{rest}");
    assert!(rest.ends_with("\r\n\r\nuntil the end"), "{rest}");
}

#[tokio::test]
async fn a_head_request_has_no_body_and_keeps_the_length() {
    let proxy = Proxy::start().await;
    let (port, connections, _) = server().await;
    let mut client = proxy.client().await;
    let request = format!("HEAD http://server.test:{port}/head HTTP/1.1\r\n\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
    let head = read_head(&mut client).await;
    assert!(head.contains("Content-Length: 1000"), "{head}");
    client.write_all(&get(port, "/1")).await.unwrap();
    assert_eq!(read_response(&mut client).await.1, "hello");
    assert_eq!(connections.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_client_that_expects_100_continue_gets_it_from_the_server() {
    let proxy = Proxy::start().await;
    let (port, _, mut seen) = server().await;
    let mut client = proxy.client().await;
    let request = format!(
        "POST http://server.test:{port}/expect HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n"
    );
    client.write_all(request.as_bytes()).await.unwrap();
    assert_eq!(
        read_head(&mut client).await,
        "HTTP/1.1 100 Continue\r\n\r\n"
    );
    assert!(seen.recv().await.unwrap().contains("Expect: 100-continue"));
    client.write_all(b"body").await.unwrap();
    assert_eq!(read_response(&mut client).await.1, "body");
    client.write_all(&get(port, "/1")).await.unwrap();
    assert_eq!(read_response(&mut client).await.1, "hello");
}

#[tokio::test]
async fn a_chunked_request_body_arrives_as_it_was_sent() {
    let proxy = Proxy::start().await;
    let body = b"4\r\nwiki\r\n5;e=1\r\npedia\r\n0\r\nTrailer-Field: x\r\n\r\n";
    let port = serve(move |mut stream| async move {
        let head = read_head(&mut stream).await;
        assert!(head.contains("Transfer-Encoding: chunked"));
        assert_eq!(read_exactly(&mut stream, body.len()).await, body);
        let reply = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        stream.write_all(reply).await.unwrap();
        read_head(&mut stream).await;
    })
    .await;
    let mut client = proxy.client().await;
    let head =
        format!("POST http://server.test:{port}/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.write_all(head.as_bytes()).await.unwrap();
    for piece in body.chunks(3) {
        client.write_all(piece).await.unwrap();
        tokio::task::yield_now().await;
    }
    assert_eq!(read_response(&mut client).await.1, "ok");
    // The connection is still good for another request.
    client.write_all(&get(1, "/")).await.unwrap();
    assert!(read_head(&mut client).await.starts_with("HTTP/1.1 502 "));
}

#[tokio::test]
async fn an_upgrade_makes_a_tunnel() {
    let proxy = Proxy::start().await;
    let (port, ..) = server().await;
    let mut client = proxy.client().await;
    let request = format!(
        "GET http://server.test:{port}/upgrade HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nearly "
    );
    client.write_all(request.as_bytes()).await.unwrap();
    let head = read_head(&mut client).await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    assert!(
        head.contains("Connection: Upgrade\r\nUpgrade: echo\r\n"),
        "{head}"
    );
    client.write_all(b"late").await.unwrap();
    client.shutdown().await.unwrap();
    assert_eq!(read_all(&mut client).await, "hi early late");
}

#[tokio::test]
async fn a_request_that_cannot_be_repeated_takes_a_fresh_connection() {
    let proxy = Proxy::start().await;
    let (port, connections, _) = server().await;
    let mut client = proxy.client().await;
    for (request, expected) in [
        (get(port, "/1"), 1),
        (
            format!("POST http://server.test:{port}/1 HTTP/1.1\r\nContent-Length: 0\r\n\r\n")
                .into(),
            2,
        ),
        (get(port, "/1"), 2),
    ] {
        client.write_all(&request).await.unwrap();
        assert_eq!(read_response(&mut client).await.1, "hello");
        assert_eq!(connections.load(Ordering::Relaxed), expected);
    }
}

#[tokio::test]
async fn max_forwards_zero_ends_at_the_proxy() {
    let proxy = Proxy::start().await;
    let mut client = proxy.client().await;
    let request = b"OPTIONS http://a/ HTTP/1.1\r\nMax-Forwards: 0\r\n\r\n";
    client.write_all(request).await.unwrap();
    assert!(read_head(&mut client).await.starts_with("HTTP/1.1 200 "));
    assert!(proxy.dialed().is_empty());
}

#[tokio::test]
async fn a_large_body_goes_through_in_both_directions() {
    let proxy = Proxy::start().await;
    let port = serve(|mut stream| async move {
        read_head(&mut stream).await;
        let body = read_exactly(&mut stream, 3_000_000).await;
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 3000000\r\n\r\n";
        stream.write_all(head).await.unwrap();
        stream.write_all(&body).await.unwrap();
    })
    .await;
    let body: Vec<u8> = (0..3_000_000u32).map(|n| (n >> 3) as u8).collect();
    let mut client = proxy.client().await;
    let head =
        format!("PUT http://server.test:{port}/ HTTP/1.1\r\nContent-Length: 3000000\r\n\r\n");
    client.write_all(head.as_bytes()).await.unwrap();
    client.write_all(&body).await.unwrap();
    read_head(&mut client).await;
    assert!(read_exactly(&mut client, body.len()).await == body);
    let stats = proxy.stats();
    assert!(stats.bytes_up.as_u64() > 3_000_000 && stats.bytes_down.as_u64() > 3_000_000);
}
