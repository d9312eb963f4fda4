//! Connections over loopback: both ends, their streams, and how they end.

#[allow(
    dead_code,
    unreachable_pub,
    reason = "not every test file needs all of it"
)]
mod common;

use std::future::Future;
use std::time::Duration;

use common::{Pair, in_time};
use hawser::{
    AcceptError, ConnectionError, Endpoint, OpenError, ReadError, SendDatagramError, WriteError,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

async fn give_up<T>(work: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(Duration::from_millis(1), work)
        .await
        .ok()
}

/// Programs move these types between tasks: the listing in `api.txt` does not show `Send`.
#[test]
fn every_type_is_send_and_sync() {
    fn moves<T: Send + Sync + Unpin + 'static>() {}
    moves::<Endpoint>();
    moves::<hawser::EndpointBuilder>();
    moves::<hawser::BondListener>();
    moves::<hawser::Connection>();
    moves::<hawser::BondStream>();
    moves::<hawser::RecvStream>();
    moves::<hawser::SendStream>();
    moves::<hawser::EitherStream>();
    moves::<hawser::ConnectionStats>();
    moves::<hawser::Invite>();
    moves::<hawser::ConnectError>();
    moves::<hawser::ListenError>();
    moves::<hawser::FallbackError>();
    moves::<ReadError>();
    moves::<WriteError>();
}

fn closed_by_peer(code: u32, reason: &str) -> ConnectionError {
    ConnectionError::ClosedByPeer {
        code,
        reason: reason.to_owned(),
    }
}

#[tokio::test]
async fn both_ends_open_and_accept_streams_and_clones_are_the_same_connection() {
    in_time(async {
        let pair = Pair::new().await;
        assert_eq!(pair.client.peer(), pair.listener.public_key());
        for (here, there) in [(&pair.client, &pair.server), (&pair.server, &pair.client)] {
            let mut stream = here.clone().open_with("for you".into()).await.unwrap();
            stream.write_all(b"text").await.unwrap();
            let mut other = there.clone().accept().await.unwrap();
            assert_eq!(&other.opening()[..], b"for you");
            let mut text = [0; 4];
            other.read_exact(&mut text).await.unwrap();
            assert_eq!(&text, b"text");
            stream.accepted().await.unwrap();
        }
        assert_eq!(pair.server.close_reason(), None);
    })
    .await;
}

#[tokio::test]
async fn a_close_ends_open_streams_and_tells_the_peer_its_code_and_reason() {
    in_time(async {
        let pair = Pair::new().await;
        let (mut near, mut far) = pair.stream().await;
        let waiting = tokio::spawn({
            let server = pair.server.clone();
            async move { server.accept().await.map(drop) }
        });
        pair.client.close(9, "enough");
        pair.client.close(10, "only the first one counts");
        let refused = pair.client.open().await;
        assert_eq!(refused.map(drop), Err(OpenError::SessionClosed));
        assert_eq!(pair.client.closed().await, ConnectionError::LocallyClosed);
        let reason = closed_by_peer(9, "enough");
        assert_eq!(pair.server.closed().await, reason);
        assert_eq!(pair.server.close_reason(), Some(reason.clone()));
        assert_eq!(waiting.await.unwrap(), Err(reason.clone()));
        let lost = ReadError::ConnectionLost(reason.clone());
        assert_eq!(far.read_chunk(9).await, Err(lost));
        let lost = WriteError::ConnectionLost(reason.clone());
        assert_eq!(far.write_bytes(&mut "x".into()).await, Err(lost));
        let lost = SendDatagramError::ConnectionLost(reason.clone());
        assert_eq!(far.send_datagram("x".into()), Err(lost));
        assert_eq!(
            reason.to_string(),
            "the peer closed the connection with code 9: enough"
        );
        let lost = ReadError::ConnectionLost(ConnectionError::LocallyClosed);
        assert_eq!(near.read_chunk(9).await, Err(lost));
    })
    .await;
}

#[tokio::test]
async fn the_listening_side_closes_too_and_the_client_does_not_connect_again() {
    in_time(async {
        let pair = Pair::new().await;
        pair.server.close(1, "");
        assert_eq!(pair.client.closed().await, closed_by_peer(1, ""));
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(pair.listener.counters().sessions, 1);
    })
    .await;
}

#[tokio::test]
async fn the_last_handle_that_is_dropped_closes_the_connection() {
    in_time(async {
        let pair = Pair::new().await;
        let other = pair.server.clone();
        drop(pair.server);
        assert!(give_up(pair.client.closed()).await.is_none());
        drop(other);
        assert_eq!(pair.client.closed().await, closed_by_peer(0, ""));
    })
    .await;
}

#[tokio::test]
async fn a_peer_that_is_revoked_hears_that_it_is_refused() {
    in_time(async {
        let pair = Pair::new().await;
        let key = pair.server.peer();
        assert!(pair.listener.revoke(key).unwrap());
        assert_eq!(pair.client.closed().await, ConnectionError::Refused);
    })
    .await;
}

#[tokio::test]
async fn an_abort_loses_the_connection_at_once() {
    in_time(async {
        let pair = Pair::new().await;
        let (_near, mut far) = pair.stream().await;
        pair.server.abort();
        assert_eq!(pair.server.closed().await, ConnectionError::Lost);
        let lost = ReadError::ConnectionLost(ConnectionError::Lost);
        assert_eq!(far.read_chunk(9).await, Err(lost));
    })
    .await;
}

#[tokio::test]
async fn accepting_can_be_given_up_and_tried_again() {
    in_time(async {
        let listener = Endpoint::new().unwrap().listen("127.0.0.1:0").await;
        let listener = listener.unwrap();
        let invite = listener.invite(Duration::from_secs(60)).unwrap();
        let client = Endpoint::new().unwrap();
        let connecting = tokio::spawn(async move { client.connect(&invite).await.unwrap() });
        let server = loop {
            if let Some(server) = give_up(listener.accept_connection()).await {
                break server.unwrap();
            }
        };
        let client = connecting.await.unwrap();
        for _ in 0..50 {
            let mut stream = client.open().await.unwrap();
            stream.write_all(b"x").await.unwrap();
            let mut accepted = loop {
                if let Some(accepted) = give_up(server.accept()).await {
                    break accepted.unwrap();
                }
            };
            assert_eq!(accepted.read_u8().await.unwrap(), b'x');
            while give_up(stream.accepted()).await.is_none() {}
        }
        while client.close_reason().is_none() {
            server.close(0, "");
            give_up(client.closed()).await;
        }
        client.closed().await;
    })
    .await;
}

#[tokio::test]
async fn a_peer_that_came_before_the_listener_was_asked_is_not_lost() {
    in_time(async {
        let listener = Endpoint::new().unwrap().listen("127.0.0.1:0").await;
        let listener = listener.unwrap();
        let invite = listener.invite(Duration::from_secs(60)).unwrap();
        let client = Endpoint::new().unwrap().connect(&invite).await.unwrap();
        let mut stream = client.open().await.unwrap();
        stream.write_all(b"early").await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        let server = listener.accept_connection().await.unwrap();
        let mut early = [0; 5];
        server
            .accept()
            .await
            .unwrap()
            .read_exact(&mut early)
            .await
            .unwrap();
        assert_eq!(&early, b"early");
        let error = listener.accept().await.unwrap_err();
        let inner = error.get_ref().unwrap().downcast_ref::<AcceptError>();
        assert_eq!(inner, Some(&AcceptError::GivesConnections));
        let streams = Endpoint::new()
            .unwrap()
            .listen("127.0.0.1:0")
            .await
            .unwrap();
        assert!(give_up(streams.accept()).await.is_none());
        let error = streams.accept_connection().await.unwrap_err();
        assert_eq!(error, AcceptError::GivesStreams);
    })
    .await;
}

#[tokio::test]
async fn streams_that_came_before_the_end_are_handed_out_after_it() {
    in_time(async {
        let pair = Pair::new().await;
        let mut stream = pair.client.open().await.unwrap();
        stream.write_all(b"last words").await.unwrap();
        stream.shutdown().await.unwrap();
        pair.client.close(0, "");
        pair.client.closed().await;
        pair.server.closed().await;
        let mut stream = pair.server.accept().await.unwrap();
        let mut words = String::new();
        stream.read_to_string(&mut words).await.unwrap();
        assert_eq!(words, "last words");
        assert!(pair.server.accept().await.is_err());
    })
    .await;
}

#[tokio::test]
async fn both_ends_see_paths_channels_and_streams_in_their_statistics() {
    in_time(async {
        let pair = Pair::new().await;
        let (_near, _far) = pair.stream().await;
        for (connection, named) in [(&pair.client, true), (&pair.server, false)] {
            let stats = connection.stats();
            let path = &stats.paths[0];
            assert_eq!(path.name.is_some(), named);
            assert!(path.channels > 0 && path.local.is_some() && !path.suspect);
            assert!(path.sent.as_u64() > 0 && path.received.as_u64() > 0);
            assert_eq!((stats.open_streams, stats.streams.len()), (1, 1));
            assert!(!stats.channels.is_empty());
        }
    })
    .await;
}
