//! Access control.

use hawser_monitor::metrics::CONTENT_TYPE;
use hawser_monitor::web::Token;

use super::client::{Client, request};
use super::daemon::{Running, TOKEN};

const ASK: &str = "POST /api/v1/ask";

/// Returns the status of the answer to a status request.
async fn answered(server: &Running, headers: &[String]) -> u16 {
    let body = request("\"status\"");
    let length = format!("Content-Length: {}", body.len());
    let headers: Vec<_> = headers
        .iter()
        .chain([&length])
        .map(String::as_str)
        .collect();
    let mut client = Client::connect(server.address).await;
    client.raw(ASK, &headers, &body).await.status
}

#[tokio::test]
async fn without_the_right_token_nothing_is_told() {
    let server = Running::start();
    let host = format!("Host: {}", server.address);
    let with = |token: &str| vec![host.clone(), format!("Authorization: {token}")];
    assert_eq!(
        answered(&server, &with(&format!("Bearer {TOKEN}"))).await,
        200
    );
    assert_eq!(answered(&server, std::slice::from_ref(&host)).await, 401);
    let longer = format!("Bearer {TOKEN}x");
    for wrong in [
        "Bearer",
        "Bearer ",
        "Bearer x",
        "Basic eDp4",
        TOKEN,
        &longer,
    ] {
        assert_eq!(answered(&server, &with(wrong)).await, 401, "{wrong}");
    }
    let mut client = Client::connect(server.address).await;
    for path in ["/api/v1/feed", "/metrics"] {
        let answer = client.raw(&format!("GET {path}"), &[&host], "").await;
        assert_eq!(
            (answer.status, answer.headers["www-authenticate"].as_str()),
            (401, "Bearer")
        );
        assert!(!answer.body.contains(TOKEN), "{answer:?}");
    }
    assert_eq!(
        server
            .daemon
            .statuses
            .load(std::sync::atomic::Ordering::Relaxed),
        1
    );
}

/// Returns the run and the proof that a server sends for a nonce.
async fn proof(server: &Running, host: &str, nonce: &str) -> (String, String) {
    let mut client = Client::connect(server.address).await;
    let request = format!("GET /api/v1/proof/{nonce}");
    let host = format!("Host: {host}");
    let answer = client.raw(&request, &[&host], "").await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let told = answer.json();
    let text = |key: &str| told[key].as_str().unwrap().to_owned();
    (text("run"), text("proof"))
}

/// Computes the MAC as in `docs/control-api.md`.
fn mac(key: &str, text: &str) -> String {
    use base64::Engine as _;
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, key.as_bytes());
    let tag = ring::hmac::sign(&key, text.as_bytes());
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(tag)
}

#[tokio::test]
async fn a_server_proves_that_it_knows_the_token_and_takes_a_pass_instead_of_it() {
    let server = Running::start();
    let own = server.address.to_string();
    let nonce = "a-random-number_00";
    let (run, told) = proof(&server, &own, nonce).await;
    let pass = |host: &str| mac(TOKEN, &format!("hawser-pass\n{host}\n{run}"));
    assert_eq!(told, mac(&pass(&own), &format!("hawser-proof\n{nonce}")));
    assert_ne!(told, proof(&server, &own, "another-number_00").await.1);
    // Not by a name, which may have another address at which another program listens.
    let localhost = format!("localhost:{}", server.address.port());
    let host = format!("Host: {localhost}");
    let mut client = Client::connect(server.address).await;
    let request = format!("GET /api/v1/proof/{nonce}");
    let named = client.raw(&request, &[&host], "").await;
    assert_eq!(named.status, 400, "{named:?}");
    let page = client.raw("GET /", &[&host], "").await;
    let location = &page.headers["location"];
    assert_eq!((page.status, location), (307, &format!("http://{own}/")));

    let shown = |host: &str, pass: &str| {
        vec![
            format!("Host: {host}"),
            format!("Authorization: Bearer {pass}"),
        ]
    };
    assert_eq!(answered(&server, &shown(&own, &pass(&own))).await, 200);
    // A pass for another host, or for the previous server.
    assert_eq!(
        answered(&server, &shown(&localhost, &pass(&own))).await,
        401
    );
    let other = Running::start();
    let (next, _) = proof(&other, &other.address.to_string(), nonce).await;
    assert_ne!(next, run);
    for nonce in ["short", &"x".repeat(65), "not-base64url-%21!"] {
        let mut client = Client::connect(server.address).await;
        let host = format!("Host: {own}");
        let request = format!("GET /api/v1/proof/{nonce}");
        let refused = client.raw(&request, &[&host], "").await;
        assert_eq!(refused.status, 400, "{nonce}");
    }
}

#[tokio::test]
async fn a_token_that_is_replaced_opens_nothing_from_then_on() {
    let server = Running::start();
    let own = server.address.to_string();
    let with = |shown: &str| {
        vec![
            format!("Host: {own}"),
            format!("Authorization: Bearer {shown}"),
        ]
    };
    let (run, _) = proof(&server, &own, "a-random-number_00").await;
    let old = mac(TOKEN, &format!("hawser-pass\n{own}\n{run}"));
    let client = Client::connect(server.address).await;
    let mut feed = client.feed("Accept: */*").await.unwrap();
    feed.next_of("status").await;
    // A request of which half has arrived when the token is replaced.
    let mut slow = Client::connect(server.address).await;
    let body = request("\"add-rule\",\"rule\":\"x\"");
    let head = format!(
        "{ASK} HTTP/1.1\r\n{}\r\nContent-Length: {}\r\nExpect: 100-continue\r\n\r\n",
        with(TOKEN).join("\r\n"),
        body.len()
    );
    slow.write(&head).await;
    // The server wants the body, so it has seen the head.
    assert_eq!(slow.head().await.unwrap().status, 100);

    server.token.send_replace(Token::new("another"));
    while feed.next().await.is_some() {}
    slow.write(&body).await;
    assert_eq!(slow.head().await.unwrap().status, 401);
    assert!(server.daemon.steered.lock().is_empty());
    for refused in [TOKEN, &old] {
        assert_eq!(answered(&server, &with(refused)).await, 401);
    }
    assert_eq!(answered(&server, &with("another")).await, 200);
    let client = Client::connect(server.address).await;
    assert_eq!(client.feed("Accept: */*").await.unwrap_err().0.status, 401);
}

#[tokio::test]
async fn metrics_are_told_to_holders_of_the_token() {
    let server = Running::start();
    let host = format!("Host: {}", server.address);
    let token = format!("Authorization: Bearer {TOKEN}");
    let mut client = Client::connect(server.address).await;
    let answer = client.raw("GET /metrics", &[&host, &token], "").await;
    assert_eq!(
        (answer.status, answer.headers["content-type"].as_str()),
        (200, CONTENT_TYPE)
    );
    let sample = "\nhawser_links{state=\"down\"} 1\n";
    assert!(answer.body.contains(sample), "{}", answer.body);
}

#[tokio::test]
async fn pages_of_others_and_names_of_others_are_refused_even_with_the_token() {
    let server = Running::start();
    let port = server.address.port();
    let token = format!("Authorization: Bearer {TOKEN}");
    let asked = |host: &str, origin: Option<&str>| {
        let mut headers = vec![format!("Host: {host}"), token.clone()];
        headers.extend(origin.map(|origin| format!("Origin: {origin}")));
        headers
    };
    let own = format!("127.0.0.1:{port}");
    let named = format!("localhost:{port}");
    for (host, origin, expected) in [
        (&own, None, 200),
        (&named, None, 200),
        (&own, Some(format!("http://{own}")), 200),
        (&own, Some(format!("http://{named}")), 403),
        (&own, Some("http://evil.example".to_owned()), 403),
        (&own, Some("null".to_owned()), 403),
        (&format!("evil.example:{port}"), None, 403),
        (&"127.0.0.1".to_owned(), None, 403),
        (&format!("127.0.0.1:{}", port ^ 1), None, 403),
    ] {
        let headers = asked(host, origin.as_deref());
        assert_eq!(answered(&server, &headers).await, expected, "{headers:?}");
    }
    assert_eq!(answered(&server, std::slice::from_ref(&token)).await, 403);
    let twice = [format!("Host: {own}"), format!("Host: {own}"), token];
    assert_eq!(answered(&server, &twice).await, 403);
    // The page itself is not served to others either.
    let mut client = Client::connect(server.address).await;
    let page = client
        .raw("GET /", &[&format!("Host: evil.example:{port}")], "")
        .await;
    assert_eq!(page.status, 403);
}

#[tokio::test]
async fn no_other_page_is_told_that_it_may_ask() {
    let server = Running::start();
    let host = format!("Host: {}", server.address);
    let origin = "Origin: http://evil.example";
    let method = "Access-Control-Request-Method: POST";
    let mut client = Client::connect(server.address).await;
    let answer = client
        .raw("OPTIONS /api/v1/ask", &[&host, origin, method], "")
        .await;
    assert_eq!(answer.status, 403);
    let own = client.raw("OPTIONS /", &[&host], "").await;
    assert_eq!(own.status, 405);
    for answer in [answer, own] {
        assert!(
            answer
                .headers
                .keys()
                .all(|name| !name.starts_with("access-control"))
        );
    }
}

#[tokio::test]
async fn what_ends_the_daemon_or_lets_others_in_is_refused_with_the_reason() {
    let server = Running::start();
    let mut client = Client::connect(server.address).await;
    for refused in [
        "\"stop\"",
        "\"invite\"",
        "\"revoke-peer\",\"key\":\"k\"",
        "\"recording\",\"offset\":0",
    ] {
        let answer = client.ask(ASK, &request(refused)).await;
        assert_eq!(answer.status, 403, "{answer:?}");
        assert_eq!(answer.json()["response"], "error");
        assert_eq!(answer.json()["reason"], "forbidden");
    }
    assert!(server.daemon.steered.lock().is_empty());
}

#[test]
fn only_addresses_of_this_machine_are_served() {
    use hawser_monitor::web::{BindError, Server};
    let (_keep, token) = tokio::sync::watch::channel(Token::new(TOKEN));
    for exposed in ["0.0.0.0:7480", "[::]:7480", "192.0.2.1:7480"] {
        let daemon = super::daemon::Numbers::new(0);
        let refused = Server::bind(exposed.parse().unwrap(), token.clone(), daemon);
        let error = refused.err().unwrap();
        assert!(matches!(error, BindError::Exposed { .. }), "{error}");
        assert!(
            error.to_string().contains("ssh -L 7480:127.0.0.1:7480"),
            "{error}"
        );
    }
}
