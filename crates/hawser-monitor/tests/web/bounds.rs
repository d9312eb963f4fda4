//! Slow, silent, numerous and greedy clients.

use std::sync::atomic::Ordering;
use std::time::Duration;

use hawser_monitor::web::Limits;
use rustix::process::{Resource, getrlimit, setrlimit};

use super::client::{Client, request};
use super::daemon::{Numbers, Running};

const ASK: &str = "POST /api/v1/ask";

fn impatient() -> Limits {
    Limits {
        patience: Duration::from_secs(1),
        ..Limits::default()
    }
}

async fn gets_an_answer(server: &Running) {
    let mut client = Client::connect(server.address).await;
    let answer = client.ask(ASK, &request("\"policy\"")).await;
    assert_eq!(answer.status, 200, "{answer:?}");
}

#[tokio::test]
async fn ten_megabytes_are_refused_without_being_read() {
    let server = Running::start();
    let mut client = Client::connect(server.address).await;
    let host = format!("Host: {}", server.address);
    let token = format!("Authorization: Bearer {}", super::daemon::TOKEN);
    // The body never arrives, so the server did not wait for it.
    let length = "Content-Length: 10000000";
    let answer = client.raw(ASK, &[&host, &token, length], "").await;
    assert_eq!(answer.status, 413);
    client.ended().await;
    // Nor does the server read a body without a length to its end.
    let mut client = Client::connect(server.address).await;
    let chunked = [host.as_str(), &token, "Transfer-Encoding: chunked"];
    let part = format!("11000\r\n{}\r\n", "x".repeat(0x11000));
    assert_eq!(client.raw(ASK, &chunked, &part).await.status, 413);
    client.ended().await;
    gets_an_answer(&server).await;
}

#[tokio::test]
async fn heads_that_are_slow_or_endless_end_the_connection() {
    let server = Running::with(impatient(), Numbers::new(0));
    let mut slow = Client::connect(server.address).await;
    slow.write("GET / HTTP/1.1\r\nHost: ").await;
    slow.ended().await;
    let mut silent = Client::connect(server.address).await;
    silent.ended().await;
    // Between requests, too.
    let mut idle = Client::connect(server.address).await;
    let host = format!("Host: {}", server.address);
    assert_eq!(idle.raw("GET /", &[&host], "").await.status, 200);
    idle.ended().await;
    let many: Vec<_> = (0..100).map(|number| format!("X-{number}: x")).collect();
    let long = format!("X: {}", "x".repeat(20_000));
    for header in [many.join("\r\n"), long] {
        let mut client = Client::connect(server.address).await;
        assert_eq!(client.raw("GET /", &[&host, &header], "").await.status, 431);
        client.ended().await;
    }
    gets_an_answer(&server).await;
}

#[tokio::test]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let server = Running::with(impatient(), Numbers::new(0));
    let mut client = Client::connect(server.address).await;
    let host = format!("Host: {}", server.address);
    let token = format!("Authorization: Bearer {}", super::daemon::TOKEN);
    let answer = client
        .raw(ASK, &[&host, &token, "Content-Length: 50"], "{")
        .await;
    assert_eq!(answer.status, 408);
    client.ended().await;
}

#[tokio::test]
async fn garbage_behind_a_request_ends_the_connection_after_its_answer() {
    let server = Running::start();
    for garbage in [
        "\u{1}\u{2}garbage\r\n\r\n",
        "GET\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "\0\0\0\0\r\n\r\n",
    ] {
        let mut client = Client::connect(server.address).await;
        let head = format!("HEAD / HTTP/1.1\r\nHost: {}\r\n\r\n", server.address);
        client.write(&(head + garbage)).await;
        assert_eq!(client.head().await.unwrap().status, 200, "{garbage:?}");
        if let Some(answer) = client.head().await {
            assert_eq!(answer.status, 400, "{garbage:?}");
        }
        client.ended().await;
    }
    gets_an_answer(&server).await;
}

#[tokio::test]
async fn a_thousand_stalled_feeds_keep_no_client_out() {
    raise_open_files();
    let server = Running::start();
    let limits = Limits::default();
    // None of these clients reads on or leaves.
    let (mut stalled, mut refused) = (Vec::new(), Vec::new());
    for _ in 0..1000 {
        match Client::connect(server.address)
            .await
            .feed("Accept: */*")
            .await
        {
            Ok(feed) => stalled.push(feed),
            Err((answer, client)) => {
                assert_eq!(answer.status, 503);
                assert!(answer.headers.contains_key("retry-after"));
                refused.push(client);
            }
        }
    }
    assert_eq!(
        (stalled.len(), refused.len()),
        (limits.feeds, 1000 - limits.feeds)
    );
    for _ in 0..10 {
        server.daemon.tick();
        gets_an_answer(&server).await;
    }
    // At most one picture per change, however many readers there are.
    assert!(server.daemon.statuses.load(Ordering::Relaxed) <= 11);
    // A released place is reused.
    drop(stalled);
    loop {
        server.daemon.tick();
        let client = Client::connect(server.address).await;
        if let Ok(mut feed) = client.feed("Accept: */*").await {
            feed.next_of("status").await;
            break;
        }
    }
    server.end().await;
}

#[tokio::test]
async fn a_thousand_silent_connections_keep_no_client_out() {
    raise_open_files();
    let server = Running::start();
    let mut known = Client::connect(server.address).await;
    assert_eq!(known.ask(ASK, &request("\"policy\"")).await.status, 200);
    let mut silent = Vec::new();
    for _ in 0..1000 {
        silent.push(Client::connect(server.address).await);
    }
    gets_an_answer(&server).await;
    // A client with the token keeps its place.
    assert_eq!(known.ask(ASK, &request("\"policy\"")).await.status, 200);
    // Most of them are disconnected, although the test has not waited for any time-out.
    let many = silent.len() - 2 * Limits::default().connections;
    for client in &mut silent[..many] {
        client.ended().await;
    }
}

#[tokio::test]
async fn a_reader_that_stalls_loses_its_feed() {
    let limits = Limits {
        feeds: 1,
        ..impatient()
    };
    // Each snapshot is larger than the kernel's buffer for one reader.
    let server = Running::with(limits, Numbers::new(900_000));
    let stalled = Client::connect(server.address)
        .await
        .feed("Accept: */*")
        .await;
    let stalled = stalled.unwrap();
    loop {
        server.daemon.tick();
        let client = Client::connect(server.address).await;
        if let Ok(mut feed) = client.feed("Accept: */*").await {
            feed.next_of("status").await;
            break;
        }
    }
    // It was reset, although none of its waiting data was read.
    assert!(stalled.is_reset().await);
}

#[tokio::test]
async fn a_slow_reader_skips_snapshots_and_gets_every_event() {
    let server = Running::with(Limits::default(), Numbers::new(900_000));
    let client = Client::connect(server.address).await;
    let mut slow = client.feed("Accept: */*").await.unwrap();
    let client = Client::connect(server.address).await;
    let mut quick = client.feed("Accept: */*").await.unwrap();
    quick.next_of("status").await;
    for number in 1..=20 {
        let id = server.daemon.lose_link(&format!("wwan{number}"));
        while quick.next_of("event").await.0 != Some(id) {}
    }
    let (mut events, mut statuses) = (Vec::new(), 0);
    while events.len() < 20 {
        match slow.next().await.unwrap() {
            (kind, Some(id), _) if kind == "event" => events.push(id),
            (kind, ..) if kind == "status" => statuses += 1,
            _ => {}
        }
    }
    assert_eq!(events, (1..=20).collect::<Vec<_>>());
    let made = server.daemon.statuses.load(Ordering::Relaxed);
    assert!(statuses < made, "{statuses} of {made}");
}

/// Raises the limit of open files, for many clients.
fn raise_open_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
}
