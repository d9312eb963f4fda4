//! The examples at work over loopback.

use std::collections::BTreeMap;
use std::time::Duration;

use hawser::Endpoint;
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

/// The lines of `text` that `other` does not have, or not as often.
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
