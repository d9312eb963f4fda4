//! Data over several links: many streams, large ones, both ways.

mod common;

use std::time::Duration;

use bytes::Bytes;
use common::{Pair, PairOptions, Way, echo_checked, in_time, read_checked, until, write_pattern};
use futures_util::future::join_all;
use hawser_session::SessionConfig;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_streams_go_both_ways_at_once() {
    in_time(async {
        let (_pair, client) = Pair::echoing(PairOptions::default()).await;
        join_all((0..60).map(|n| echo_checked(&client, n, n * 7_919))).await;
        let session = client.snapshot(8).session.unwrap();
        assert_eq!(session.counters.streams_opened, 60);
        until("all streams are over", || {
            client.snapshot(8).session.unwrap().stream_count == 0
        })
        .await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_megabytes_arrive_as_they_were_sent_and_every_link_carries_some() {
    in_time(async {
        let (pair, client) = Pair::echoing(PairOptions::default()).await;
        echo_checked(&client, 1, 50_000_000).await;
        let session = client.snapshot(0).session.unwrap();
        for link in [1001, 1002] {
            let on_link = session.channels.iter().filter(|c| c.link.value() == link);
            let sent: u64 = on_link.map(|c| c.sent.as_u64()).sum();
            assert!(sent > 1_000_000, "link {link} carried {sent}");
        }
        let forwarded: u64 = pair
            .forwarders
            .iter()
            .flat_map(|forwarder| forwarder.all_pipes())
            .map(|pipe| pipe.forwarded(Way::ToGateway))
            .sum();
        assert!(forwarded > 50_000_000, "{forwarded}");
    })
    .await;
}

async fn five_streams_arrive(options: PairOptions) {
    in_time(async {
        let (_pair, client) = Pair::echoing(options).await;
        join_all((0..5).map(|n| echo_checked(&client, n, 3_000_000))).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_encryption_it_works_too() {
    let options = PairOptions {
        session: SessionConfig {
            plain: true,
            ..SessionConfig::default()
        },
        ..PairOptions::default()
    };
    five_streams_arrive(options).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_express_channels_it_works_too() {
    let options = PairOptions {
        express: false,
        ..PairOptions::default()
    };
    five_streams_arrive(options).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_stalls_stops_no_other_stream() {
    in_time(async {
        let pair = Pair::new(PairOptions::default()).await;
        let client = pair.enrolled_client();
        let mut stalled = client.open(Bytes::from_static(b"stalled")).await.unwrap();
        let writer = tokio::spawn(async move {
            let sent = write_pattern(&mut stalled, 1, 150_000_000).await;
            (sent, stalled)
        });
        let mut held = pair.gateway.accept().await.unwrap().stream;
        assert_eq!(held.opening(), &Bytes::from_static(b"stalled"));
        pair.serve_echo();
        until("the writer is held back", {
            let mut before = 0;
            let mut same = 0;
            let client = &client;
            move || {
                let sent = client.snapshot(8).session.unwrap().streams[0].sent.as_u64();
                same = if sent == before && sent > 0 {
                    same + 1
                } else {
                    0
                };
                before = sent;
                same > 40
            }
        })
        .await;
        assert!(!writer.is_finished());
        join_all((0..8).map(|n| echo_checked(&client, n, 500_000))).await;
        held.accept(Bytes::new()).unwrap();
        let read = read_checked(&mut held).await.unwrap();
        let (sent, _stream) = writer.await.unwrap();
        assert_eq!(sent.unwrap(), read);
    })
    .await;
}

#[tokio::test]
async fn an_orderly_close_is_quick_and_loses_nothing() {
    in_time(async {
        let pair = Pair::new(PairOptions::default()).await;
        let client = pair.enrolled_client();
        let mut stream = client.open(Bytes::new()).await.unwrap();
        let sent = write_pattern(&mut stream, 3, 200_000).await.unwrap();
        drop(stream);
        let reading = async {
            let mut stream = pair.gateway.accept().await.unwrap().stream;
            read_checked(&mut stream).await.unwrap()
        };
        let begun = std::time::Instant::now();
        let (read, ()) = tokio::join!(reading, client.close(Duration::from_secs(60)));
        assert_eq!(read, sent);
        // Not a measurement: the close must not have waited until its time limit.
        assert!(begun.elapsed() < Duration::from_secs(30));
        until("the session is over", || {
            pair.gateway.sessions(0).is_empty()
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn a_gateway_that_closes_tells_its_clients() {
    in_time(async {
        let (pair, client) = Pair::echoing(PairOptions::default()).await;
        let mut stream = client.open(Bytes::new()).await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut stream, b"x")
            .await
            .unwrap();
        let begun = std::time::Instant::now();
        let key = pair.key;
        assert_eq!(pair.gateway.sessions(8).len(), 1, "{key}");
        pair.close_gateway(Duration::from_secs(60)).await;
        let ended = read_checked(&mut stream).await;
        assert!(ended.is_err(), "the stream had not ended: {ended:?}");
        assert!(begun.elapsed() < Duration::from_secs(30));
    })
    .await;
}
