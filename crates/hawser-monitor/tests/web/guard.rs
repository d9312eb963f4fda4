//! Who is let in.

use hawser_monitor::metrics::CONTENT_TYPE;

use super::client::{Client, request};
use super::daemon::{Running, TOKEN};

const ASK: &str = "POST /api/v1/ask";

/// The status that a request for the daemon's status is answered with.
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
    // The page itself is not handed to others either.
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
    assert!(server.daemon.steered.lock().unwrap().is_empty());
}

#[test]
fn only_addresses_of_this_machine_are_served() {
    use hawser_monitor::web::{BindError, Server, Token};
    for exposed in ["0.0.0.0:7480", "[::]:7480", "192.0.2.1:7480"] {
        let daemon = super::daemon::Numbers::new(0);
        let refused = Server::bind(exposed.parse().unwrap(), Token::new(TOKEN), daemon);
        let error = refused.err().unwrap();
        assert!(matches!(error, BindError::Exposed { .. }), "{error}");
        assert!(
            error.to_string().contains("ssh -L 7480:127.0.0.1:7480"),
            "{error}"
        );
    }
}
