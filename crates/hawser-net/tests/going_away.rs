//! A gateway that is replaced: its clients move to another gateway with the same key, and lose no
//! data.

mod common;

use std::time::Duration;

use bytes::Bytes;
use common::write_pattern;
use common::{Checked, Pair, PairOptions, echo_checked, in_time, read_checked, until};
use hawser_keys::identity::Identity;
use hawser_net::client::Client;
use hawser_net::stream::BondStream;
use hawser_session::SessionConfig;
use hawser_types::{ByteCount, SessionId};
use tokio::io::{AsyncWriteExt as _, ReadHalf};
use tokio::task::JoinHandle;

fn little_memory() -> PairOptions {
    PairOptions {
        session: SessionConfig {
            receive_memory: ByteCount::from_mib(1),
            send_memory: ByteCount::from_mib(1),
            ..SessionConfig::default()
        },
        ..PairOptions::default()
    }
}

/// Returns two echoing gateways with one key, and a client of the first with all its channels.
async fn two_gateways() -> (Pair, Pair, Client) {
    let (before, client) = Pair::echoing(little_memory()).await;
    let after = Pair::succeeding(&before).await;
    after.serve_echo();
    (before, after, client)
}

fn session(client: &Client) -> SessionId {
    client.session_id().expect("a session runs")
}

/// Waits until the client has moved on from session `old`, and has all its channels again.
async fn moved(client: &Client, old: SessionId, after: &Pair) {
    until("another session", || client.session_id() != Some(old)).await;
    after.wait_for_channels(client).await;
}

/// Writes more than both ends buffer, so that the transfer cannot end before a read.
fn write_much(stream: BondStream) -> (JoinHandle<Checked>, ReadHalf<BondStream>) {
    let (reader, mut writer) = tokio::io::split(stream);
    let writing = async move { write_pattern(&mut writer, 7, MUCH).await.unwrap() };
    (tokio::spawn(writing), reader)
}

#[tokio::test]
async fn a_transfer_ends_where_it_began_and_later_streams_go_to_the_other_gateway() {
    let (before, after, client) = two_gateways().await;
    let old = session(&client);
    let (writing, mut reader) = write_much(client.open(Bytes::new()).await.unwrap());
    client.set_addresses(after.addresses());
    before.gateway.go_away();
    moved(&client, old, &after).await;
    assert_eq!(client.sessions().len(), 2);
    assert!(!writing.is_finished());
    echo_checked(&client, 1, 300_000).await;
    assert_eq!(after.counters().sessions, 1);
    // The old gateway has only the transfer.
    let sessions = before.gateway.sessions(9);
    let streams = sessions.iter().map(|it| it.session.stream_count);
    assert_eq!(streams.collect::<Vec<_>>(), [1]);
    let got = in_time(read_checked(&mut reader)).await.unwrap();
    assert_eq!(got, in_time(writing).await.unwrap());
    drop(reader);
    until("the end of the old session", || {
        before.gateway.session_count() == 0 && client.sessions().len() == 1
    })
    .await;
    // The links belong to the session that goes on.
    let links = client.snapshot(0).links;
    let remotes: Vec<_> = links.iter().filter_map(|it| it.remote).collect();
    let are_new = |it| {
        after
            .forwarders
            .iter()
            .any(|forwarder| forwarder.address == it)
    };
    assert!(
        remotes.len() == 2 && remotes.into_iter().all(are_new),
        "{links:?}"
    );
    echo_checked(&client, 2, 300_000).await;
}

#[tokio::test]
async fn streams_are_opened_in_the_old_session_until_the_other_gateway_answers() {
    let (before, after, client) = two_gateways().await;
    let old = session(&client);
    after.forwarders.iter().for_each(|it| it.go_down());
    client.set_addresses(after.addresses());
    before.gateway.go_away();
    let told = || {
        before
            .gateway
            .sessions(0)
            .iter()
            .all(|it| it.session.unacknowledged.as_u64() == 0)
    };
    until("the command is there", told).await;
    for seed in 0..20 {
        in_time(echo_checked(&client, seed, 50_000)).await;
        assert_eq!(session(&client), old);
    }
    after.forwarders.iter().for_each(|it| it.come_up());
    moved(&client, old, &after).await;
    in_time(echo_checked(&client, 30, 50_000)).await;
    until("the end of the old session", || {
        before.gateway.session_count() == 0
    })
    .await;
}

#[tokio::test]
async fn a_session_that_was_left_lives_over_other_connections_when_some_are_lost() {
    let (before, after, client) = two_gateways().await;
    let old = session(&client);
    let (writing, mut reader) = write_much(client.open(Bytes::new()).await.unwrap());
    client.set_addresses(after.addresses());
    before.gateway.go_away();
    moved(&client, old, &after).await;
    // Joins reach the first gateway again, as when the next process passes them on.
    client.set_addresses(before.addresses());
    let cut = || before.forwarders.iter().flat_map(|it| it.pipes());
    assert!(cut().count() > 0);
    cut().for_each(|pipe| pipe.cut());
    let got = in_time(read_checked(&mut reader)).await.unwrap();
    assert_eq!(got, in_time(writing).await.unwrap());
    drop(reader);
    until("the end of the old session", || {
        client.sessions().len() == 1
    })
    .await;
}

/// The client ignores the command, like one whose application holds the session.
#[tokio::test]
async fn a_client_that_stays_loses_nothing_and_its_session_ends_when_it_is_unused() {
    let before = Pair::new(little_memory()).await;
    before.serve_echo();
    let identity = Identity::generate().unwrap();
    before.door.peers.lock().insert(identity.public());
    let config = before.config(identity, None);
    let client = Client::start_once(config, before.links.subscribe());
    before.wait_for_channels(&client).await;
    let old = session(&client);
    let (writing, mut reader) = write_much(client.open(Bytes::new()).await.unwrap());
    before.gateway.go_away();
    for seed in 0..20 {
        in_time(echo_checked(&client, seed, 50_000)).await;
    }
    assert_eq!(session(&client), old);
    let got = in_time(read_checked(&mut reader)).await.unwrap();
    assert_eq!(got, in_time(writing).await.unwrap());
    drop(reader);
    until("the end of the session", || {
        before.gateway.session_count() == 0
    })
    .await;
    until("the end of the client", || client.session_id().is_none()).await;
}

#[tokio::test]
async fn a_client_that_comes_late_is_told_too() {
    let before = Pair::new(PairOptions::default()).await;
    let after = Pair::succeeding(&before).await;
    before.serve_echo();
    after.serve_echo();
    before.gateway.go_away();
    let client = before.enrolled_client();
    in_time(echo_checked(&client, 1, 50_000)).await;
    let old = session(&client);
    client.set_addresses(after.addresses());
    moved(&client, old, &after).await;
    in_time(echo_checked(&client, 2, 50_000)).await;
}

#[tokio::test]
async fn closing_delivers_what_was_written_in_a_session_that_was_left() {
    let before = Pair::new(PairOptions::default()).await;
    let after = Pair::succeeding(&before).await;
    let client = before.enrolled_client();
    before.wait_for_channels(&client).await;
    let old = session(&client);
    let mut stream = client.open(Bytes::new()).await.unwrap();
    stream.write_all(&[7; 1000]).await.unwrap();
    let mut arrived = in_time(before.gateway.accept()).await.unwrap().stream;
    client.set_addresses(after.addresses());
    before.gateway.go_away();
    moved(&client, old, &after).await;
    stream.write_all(&[8; 200_000]).await.unwrap();
    stream.shutdown().await.unwrap();
    let (got, ()) = tokio::join!(
        in_time(read_checked(&mut arrived)),
        client.close(Duration::from_secs(30))
    );
    assert_eq!(got.unwrap().length, 201_000);
    drop((arrived, stream));
    until("the end of both sessions", || {
        before.gateway.session_count() + after.gateway.session_count() == 0
    })
    .await;
}

/// More than both ends buffer in little memory.
const MUCH: u64 = 16_000_000;
