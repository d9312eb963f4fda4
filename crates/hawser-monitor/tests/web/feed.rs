//! The feed of changes.

use std::sync::atomic::Ordering;

use super::client::{Client, Feed};
use super::daemon::Running;

async fn open(server: &Running, header: &str) -> Feed {
    let client = Client::connect(server.address).await;
    client.feed(header).await.unwrap()
}

#[tokio::test]
async fn a_feed_begins_with_all_that_is_known() {
    let server = Running::start();
    server.daemon.lose_link("wwan0");
    let mut feed = open(&server, "Accept: text/event-stream").await;
    let mut begun = Vec::new();
    for _ in 0..4 {
        let (kind, id, data) = feed.next().await.unwrap();
        begun.push((kind, id));
        assert!(data.is_object());
    }
    let kinds: Vec<_> = begun
        .iter()
        .map(|(kind, id)| (kind.as_str(), *id))
        .collect();
    let expected = [
        ("history", None),
        ("policy", None),
        ("status", None),
        ("event", Some(1)),
    ];
    assert_eq!(kinds, expected);
}

#[tokio::test]
async fn each_change_is_told_and_a_policy_only_when_it_is_another() {
    let server = Running::start();
    let mut feed = open(&server, "Accept: */*").await;
    assert_eq!(feed.next_of("status").await.1["session_count"], 1);
    server.daemon.tick();
    // No other message is in between.
    let (kind, _, status) = feed.next().await.unwrap();
    assert_eq!(
        (kind.as_str(), &status["session_count"]),
        ("status", &2.into())
    );
    server.daemon.choose("ecf");
    let (kind, _, policy) = feed.next().await.unwrap();
    assert_eq!(
        (kind.as_str(), &policy["sessions"]),
        ("policy", &"ecf".into())
    );
    assert_eq!(feed.next().await.unwrap().0, "status");
    server.daemon.lose_link("wwan0");
    let (id, event) = feed.next_of("event").await;
    assert_eq!(
        (id, &event["event"], &event["link"]),
        (Some(1), &"link-gone".into(), &"wwan0".into())
    );
}

#[tokio::test]
async fn a_reader_that_comes_back_gets_the_events_that_it_missed() {
    let server = Running::start();
    for name in ["a", "b", "c"] {
        server.daemon.lose_link(name);
    }
    let mut feed = open(&server, "Last-Event-ID: 1").await;
    assert_eq!(feed.next_of("event").await.1["link"], "b");
    assert_eq!(feed.next_of("event").await.1["link"], "c");
    // The number of an earlier daemon, and no number at all.
    for other in ["Last-Event-ID: 77", "Last-Event-ID: x"] {
        let mut feed = open(&server, other).await;
        assert_eq!(feed.next_of("event").await.1["link"], "a", "{other}");
    }
}

#[tokio::test]
async fn nothing_is_computed_without_readers_and_only_once_for_all_readers() {
    let server = Running::start();
    for _ in 0..5 {
        server.daemon.tick();
    }
    assert_eq!(server.daemon.statuses.load(Ordering::Relaxed), 0);
    let mut feeds = Vec::new();
    for _ in 0..8 {
        let mut feed = open(&server, "Accept: */*").await;
        assert_eq!(feed.next_of("status").await.1["session_count"], 1);
        feeds.push(feed);
    }
    server.daemon.tick();
    for feed in &mut feeds {
        assert_eq!(feed.next_of("status").await.1["session_count"], 2);
    }
    assert_eq!(server.daemon.statuses.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn feeds_end_in_order_with_the_server() {
    let server = Running::start();
    let mut feed = open(&server, "Accept: */*").await;
    feed.next_of("status").await;
    let ((), last) = tokio::join!(server.end(), feed.next());
    assert_eq!(last, None);
}
