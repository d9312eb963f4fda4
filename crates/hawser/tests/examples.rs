//! Runs the examples over loopback.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use hawser::{ConnectionError, Endpoint};
use hawser_skip::ClosedPort;
use tokio::net::TcpListener;

#[allow(dead_code, unreachable_pub, reason = "main is for people")]
#[path = "../examples/echo_client.rs"]
mod echo_client;
#[allow(dead_code, unreachable_pub, reason = "main is for people")]
#[path = "../examples/echo_client_tcp.rs"]
mod echo_client_tcp;
#[allow(dead_code, unreachable_pub, reason = "main is for people")]
#[path = "../examples/echo_server.rs"]
mod echo_server;
#[allow(dead_code, unreachable_pub, reason = "main is for people")]
#[path = "../examples/echo_server_tcp.rs"]
mod echo_server_tcp;

/// Includes an example. Its `main` is for users, and not run here.
macro_rules! example {
    ($name:ident, $path:literal) => {
        #[allow(dead_code, unreachable_pub, reason = "main is for people")]
        #[path = $path]
        mod $name;
    };
}

example!(connections, "../examples/connections.rs");
example!(datagrams, "../examples/datagrams.rs");
example!(fallback, "../examples/fallback.rs");
example!(halves, "../examples/halves.rs");
example!(statistics, "../examples/statistics.rs");
example!(unordered, "../examples/unordered.rs");

async fn in_time<T>(work: impl Future<Output = T>) -> T {
    let limit = Duration::from_secs(60);
    tokio::time::timeout(limit, work).await.expect("it hangs")
}

#[tokio::test]
async fn a_server_answers_on_its_own_stream_and_closes_with_a_reason() {
    let reason = in_time(connections::run()).await.unwrap();
    let expected = ConnectionError::ClosedByPeer {
        code: 7,
        reason: "that was all".to_owned(),
    };
    assert_eq!(reason, expected);
}

#[tokio::test]
async fn halves_hear_the_codes_of_the_other_end() {
    assert_eq!(in_time(halves::run()).await.unwrap(), (3, 4));
}

#[tokio::test]
async fn a_datagram_is_answered() {
    let answer = in_time(datagrams::run()).await.unwrap();
    assert_eq!(&answer[..], b"heard: ping");
}

#[tokio::test]
async fn pieces_read_out_of_order_are_put_where_they_belong() {
    let data: Vec<u8> = (0..3_000_000_u32).map(|n| ((n * 7) >> 5) as u8).collect();
    assert!(in_time(unordered::run(data.clone())).await.unwrap() == data);
}

#[tokio::test]
async fn a_transfer_is_seen_in_the_statistics() {
    let stats = in_time(statistics::run()).await.unwrap();
    let path = &stats.paths[0];
    assert!(path.sent.as_u64() >= 2_000_000 && path.channels > 0 && path.rtt.is_some());
    assert!(path.name.is_some() && path.remote.is_some() && path.local.is_some());
    assert_eq!(stats.unsent.as_u64(), 0);
    let stream = &stats.streams[0];
    assert_eq!(stream.sent.as_u64(), 2_000_000);
    assert_eq!(&stream.opening[..], b"a transfer");
}

#[tokio::test]
async fn the_fallback_reads_from_a_service_that_knows_tcp_alone() {
    let service = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let plain = service.local_addr().unwrap().to_string();
    let closed = ClosedPort::new();
    let bonded = closed.address().to_string();
    let serving = tokio::spawn(fallback::greet(service));
    let (text, is_bonded) = in_time(fallback::run(&bonded, &plain)).await.unwrap();
    assert_eq!((text.as_str(), is_bonded), ("hello over tcp", false));
    serving.abort();
}

#[tokio::test]
async fn the_echo_client_hears_from_the_echo_server() {
    let listener = Endpoint::new().unwrap().listen("127.0.0.1:0").await;
    let listener = listener.unwrap();
    let invite = listener.invite(Duration::from_secs(60)).unwrap();
    let server = tokio::spawn(echo_server::serve(listener));
    let talk = async { echo_client::talk(&invite.to_line()).await.unwrap() };
    let answer = tokio::time::timeout(Duration::from_secs(20), talk).await;
    assert_eq!(answer.unwrap(), "hello");
    server.abort();
}

#[tokio::test]
async fn their_tcp_twins_do_the_same() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = tokio::spawn(echo_server_tcp::serve(listener));
    let talk = async { echo_client_tcp::talk(&address).await.unwrap() };
    let answer = tokio::time::timeout(Duration::from_secs(20), talk).await;
    assert_eq!(answer.unwrap(), "hello");
    server.abort();
}

#[test]
fn the_twins_differ_by_a_few_lines() {
    let twins = [
        (
            include_str!("../examples/echo_server.rs"),
            include_str!("../examples/echo_server_tcp.rs"),
        ),
        (
            include_str!("../examples/echo_client.rs"),
            include_str!("../examples/echo_client_tcp.rs"),
        ),
    ];
    for (bonded, plain) in twins {
        let more = lines_missing_in(plain, bonded);
        let less = lines_missing_in(bonded, plain);
        assert!(more.len() <= 8 && less.len() <= 8, "{more:#?} {less:#?}");
    }
}

/// Returns the lines of `text` that `other` does not have, or not as often.
fn lines_missing_in<'a>(other: &str, text: &'a str) -> Vec<&'a str> {
    let mut there = BTreeMap::new();
    for line in other.lines() {
        *there.entry(line).or_insert(0) += 1;
    }
    let mut missing = text.lines().collect::<Vec<_>>();
    missing.retain(|line| match there.get_mut(line) {
        Some(left) if *left > 0 => {
            *left -= 1;
            false
        }
        _ => true,
    });
    missing
}
