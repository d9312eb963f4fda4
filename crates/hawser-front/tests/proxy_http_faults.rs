//! The proxy port with HTTP clients and servers that are old, broken, or gone.

mod common;

use std::io::ErrorKind;
use std::sync::atomic::Ordering;
use std::time::Duration;

use common::http::{get, read_response, server};
use common::{Proxy, in_time, read_all, read_head, serve};
use hawser_front::proxy::{Malformed, ProxyConfig};
use hawser_front::relay::RelayOptions;
use hawser_front::transport::{ByteStream, DialError, ResetCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;

#[tokio::test]
async fn failures_are_told_by_status_and_text() {
    let proxy = Proxy::start().await;
    for (error, status) in [
        (DialError::RefusedByPolicy, 403),
        (DialError::ConnectionRefused, 502),
        (DialError::NameNotFound, 502),
        (DialError::TimedOut, 504),
        (DialError::LimitReached, 503),
    ] {
        let host = format!("error-{}.test", error.code());
        for line in [
            format!("CONNECT {host}:443 HTTP/1.1"),
            format!("GET http://{host}/ HTTP/1.1"),
        ] {
            let mut client = proxy.client().await;
            client
                .write_all(format!("{line}\r\n\r\n").as_bytes())
                .await
                .unwrap();
            let (head, text) = read_response(&mut client).await;
            assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
            assert!(text.contains(&error.to_string()), "{text}");
            assert_eq!(text.lines().count(), 1);
        }
    }
}

#[tokio::test]
async fn old_clients_get_chunks_decoded_and_no_interim_response() {
    let proxy = Proxy::start().await;
    let (port, ..) = server().await;
    for (path, body) in [("/chunked", "abcdefg"), ("/interim", "ok")] {
        let mut client = proxy.client().await;
        let request = format!("GET http://server.test:{port}{path} HTTP/1.0\r\n\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
        let response = read_all(&mut client).await;
        assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
        assert!(!response.contains("chunked"), "{response}");
        assert!(
            response.ends_with(&format!("Connection: close\r\n\r\n{body}")),
            "{response}"
        );
    }
}

#[tokio::test]
async fn an_answer_before_the_end_of_the_request_arrives_and_closes() {
    let proxy = Proxy::start().await;
    let (port, ..) = server().await;
    let mut client = proxy.client().await;
    let head = format!(
        "POST http://server.test:{port}/too-large HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n"
    );
    client.write_all(head.as_bytes()).await.unwrap();
    client.write_all(&[b'x'; 1000]).await.unwrap();
    let response = read_all(&mut client).await;
    assert!(response.starts_with("HTTP/1.1 413 "), "{response}");
    assert!(response.contains("Connection: close"), "{response}");
    assert!(response.ends_with("no!"), "{response}");
}

#[tokio::test]
async fn a_response_that_breaks_off_is_no_complete_response() {
    let proxy = Proxy::start().await;
    let (port, ..) = server().await;
    let mut client = proxy.client().await;
    client.write_all(&get(port, "/cut")).await.unwrap();
    let error = in_time(client.read_to_end(&mut Vec::new())).await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn bad_servers_are_told_apart_from_none() {
    let proxy = Proxy::start().await;
    let (port, ..) = server().await;
    for (path, text) in [
        ("/nonsense", "cannot be understood"),
        ("/nothing", "without a response"),
    ] {
        let mut client = proxy.client().await;
        client.write_all(&get(port, path)).await.unwrap();
        let (head, body) = read_response(&mut client).await;
        assert!(head.starts_with("HTTP/1.1 502 "), "{head}");
        assert!(body.contains(text), "{body}");
    }
    let stats = proxy.stats();
    assert_eq!(stats.malformed_responses[&Malformed::Version], 1);
    assert!(stats.malformed.is_empty());
}

#[tokio::test]
async fn an_idle_connection_that_the_server_closed_is_replaced() {
    let proxy = Proxy::start().await;
    let (port, connections, _) = server().await;
    let mut client = proxy.client().await;
    for round in 1..=5 {
        client.write_all(&get(port, "/last")).await.unwrap();
        assert_eq!(read_response(&mut client).await.1, "0123456789");
        assert_eq!(connections.load(Ordering::Relaxed), round);
    }
}

#[tokio::test]
async fn a_client_that_aborts_while_it_waits_ends_the_request() {
    let proxy = Proxy::start().await;
    let (ended, mut ended_here) = mpsc::channel(1);
    let port = serve(move |mut stream| {
        let ended = ended.clone();
        async move {
            read_head(&mut stream).await;
            ended.send("waiting").await.unwrap();
            let result = stream.read(&mut [0]).await;
            assert!(result.is_err(), "{result:?}");
            ended.send("aborted").await.unwrap();
        }
    })
    .await;
    let mut client = proxy.client().await;
    client.write_all(&get(port, "/")).await.unwrap();
    assert_eq!(in_time(ended_here.recv()).await, Some("waiting"));
    client.reset(ResetCode::Aborted);
    drop(client);
    assert_eq!(in_time(ended_here.recv()).await, Some("aborted"));
}

#[tokio::test]
async fn malformed_requests_are_answered_and_counted() {
    let proxy = Proxy::start().await;
    let large = format!(
        "GET http://a/ HTTP/1.1\r\nA: {}\r\n\r\n",
        "x".repeat(70_000)
    );
    for (request, status, reason) in [
        ("GET / HTTP/1.1\r\n\r\n", 400, Malformed::Target),
        ("GET https://a/ HTTP/1.1\r\n\r\n", 501, Malformed::Scheme),
        ("GET http://a/ HTTP/3.0\r\n\r\n", 505, Malformed::Version),
        (large.as_str(), 431, Malformed::HeaderTooLarge),
        (
            "POST http://a/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            400,
            Malformed::Length,
        ),
    ] {
        let mut client = proxy.client().await;
        client.write_all(request.as_bytes()).await.unwrap();
        let head = read_head(&mut client).await;
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
        drop(client);
        let stats = proxy
            .until(|stats| stats.malformed.contains_key(&reason))
            .await;
        assert_eq!(stats.malformed[&reason], 1);
    }
    let mut client = proxy.client().await;
    client.write_all(b"GET http://a").await.unwrap();
    drop(client);
    proxy
        .until(|stats| stats.malformed.contains_key(&Malformed::Truncated))
        .await;
    assert!(proxy.dialed().is_empty());
}

#[tokio::test]
async fn a_client_that_has_ended_its_half_still_gets_its_response() {
    let proxy = Proxy::start().await;
    let (port, ..) = server().await;
    let mut client = proxy.client().await;
    client.write_all(&get(port, "/1")).await.unwrap();
    client.shutdown().await.unwrap();
    assert!(read_all(&mut client).await.ends_with("\r\n\r\nhello"));
}

#[tokio::test]
async fn a_client_that_may_have_left_does_not_hold_a_silent_server_for_ever() {
    let half_closed_timeout = Some(Duration::from_millis(50));
    let config = ProxyConfig {
        relay: RelayOptions {
            half_closed_timeout,
            ..RelayOptions::default()
        },
        ..ProxyConfig::default()
    };
    let proxy = Proxy::with(config, 1).await;
    let (ended, mut ended_here) = mpsc::channel(1);
    let port = serve(move |mut stream| {
        let ended = ended.clone();
        async move {
            read_head(&mut stream).await;
            let result = stream.read(&mut [0]).await;
            ended
                .send(result.map_err(|error| error.kind()))
                .await
                .unwrap();
        }
    })
    .await;
    let mut client = proxy.client().await;
    client.write_all(&get(port, "/")).await.unwrap();
    client.shutdown().await.unwrap();
    let seen = in_time(ended_here.recv()).await.unwrap();
    assert_eq!(seen, Err(ErrorKind::ConnectionReset));
    proxy.until(|stats| stats.current == 0).await;
}
