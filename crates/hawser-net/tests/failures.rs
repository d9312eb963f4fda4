//! Connections that die, fall silent, slow down or corrupt data, in the middle of a transfer.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{
    Kind, Pair, PairOptions, Pipe, Way, channels, echo_checked, in_time, until, write_pattern,
};
use hawser_session::SessionConfig;

/// Returns the open connections with channels.
fn pipes(pair: &Pair) -> Vec<Arc<Pipe>> {
    let all = pair.forwarders.iter().flat_map(|f| f.pipes());
    all.filter(|pipe| pipe.kind() != Kind::Unknown).collect()
}

/// Waits until the transfer is in progress on the connections.
async fn under_way(pair: &Pair, bytes: u64) {
    let moved = || -> u64 {
        let all = pair.forwarders.iter().flat_map(|f| f.all_pipes());
        all.map(|pipe| pipe.forwarded(Way::ToGateway)).sum()
    };
    until("the transfer is in progress", || moved() > bytes).await;
}

/// Bytes of a transfer that is in progress while a fault occurs.
const PLENTY: u64 = 40_000_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_connection_is_killed_in_the_middle_and_nothing_is_lost() {
    in_time(async {
        let (pair, client) = Pair::echoing(PairOptions::default()).await;
        let kill = async {
            under_way(&pair, PLENTY / 4).await;
            let first = pipes(&pair).into_iter().find(|p| p.kind() == Kind::First);
            first.expect("it lives until now").cut();
        };
        tokio::join!(echo_checked(&client, 1, PLENTY), kill);
        // The first connection is replaced by a join.
        pair.wait_for_channels(&client).await;
        let counters = pair.counters();
        assert!(
            counters.joins >= 4 && counters.sessions == 1,
            "{counters:?}"
        );
        let kinds = pipes(&pair).into_iter().map(|pipe| pipe.kind());
        assert!(!kinds.collect::<Vec<_>>().contains(&Kind::First));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_connection_in_turn_is_killed_and_nothing_is_lost() {
    in_time(async {
        let (pair, client) = Pair::echoing(PairOptions::default()).await;
        let kill = async {
            for round in 1..=4 {
                under_way(&pair, PLENTY / 8 * round).await;
                pipes(&pair).first().expect("others live").cut();
            }
        };
        tokio::join!(echo_checked(&client, 2, PLENTY), kill);
        pair.wait_for_channels(&client).await;
        assert_eq!(pair.counters().sessions, 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_that_swallows_everything_silently_loses_nothing() {
    in_time(async {
        let (pair, client) = Pair::echoing(PairOptions::default()).await;
        let stall = async {
            under_way(&pair, PLENTY / 4).await;
            // Half of the connections, some with bulk channels among them.
            let pipes = pipes(&pair);
            pipes.iter().step_by(2).for_each(|pipe| pipe.stall());
            // The kernels of both ends still answer each other, as with a middlebox that has lost
            // its other side; such a box gives up in the end.
            tokio::time::sleep(Duration::from_secs(20)).await;
            pipes.iter().step_by(2).for_each(|pipe| pipe.cut());
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = echo_checked(&client, 3, PLENTY) => {}
            () = stall => {}
        }
        assert_eq!(pair.counters().sessions, 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_is_cut_for_a_while_and_nothing_is_lost() {
    in_time(async {
        let (pair, client) = Pair::echoing(PairOptions::default()).await;
        let outage = async {
            under_way(&pair, PLENTY / 4).await;
            pair.forwarders.iter().for_each(|f| f.go_down());
            until("all channels are gone", || channels(&client) == 0).await;
            let connections = pair.counters().connections;
            // The length of the outage: no condition ends it.
            tokio::time::sleep(Duration::from_secs(3)).await;
            assert_eq!(pair.counters().connections, connections);
            pair.forwarders.iter().for_each(|f| f.come_up());
        };
        tokio::join!(echo_checked(&client, 4, PLENTY), outage);
        pair.wait_for_channels(&client).await;
        assert_eq!(pair.counters().sessions, 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_outlived_its_patience_ends_and_the_next_one_begins() {
    in_time(async {
        let options = PairOptions {
            session: SessionConfig {
                survive: Duration::from_secs(1),
                ..SessionConfig::default()
            },
            ..PairOptions::default()
        };
        let (pair, client) = Pair::echoing(options).await;
        let mut lost = client.open(bytes::Bytes::new()).await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut lost, b"hello")
            .await
            .unwrap();
        pair.forwarders.iter().for_each(|f| f.go_down());
        // The stream ends with an error, never as if the peer had finished.
        assert!(common::read_checked(&mut lost).await.is_err());
        assert!(write_pattern(&mut lost, 1, 100).await.is_err());
        until("the gateway gives it up", || {
            pair.gateway.sessions(0).is_empty()
        })
        .await;
        pair.forwarders.iter().for_each(|f| f.come_up());
        pair.wait_for_channels(&client).await;
        echo_checked(&client, 5, 1_000_000).await;
        assert_eq!(pair.counters().sessions, 2);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bit_that_is_changed_on_the_way_ends_that_connection_and_no_data_is_wrong() {
    for way in [Way::ToGateway, Way::ToClient] {
        in_time(async {
            let (pair, client) = Pair::echoing(PairOptions::default()).await;
            let flip = async {
                under_way(&pair, PLENTY / 4).await;
                let pipes = pipes(&pair);
                pipes.iter().for_each(|pipe| pipe.flip(way));
                until("every connection that was lied on is over", || {
                    pipes.iter().any(|pipe| pipe.is_over())
                })
                .await;
            };
            tokio::join!(echo_checked(&client, 6, PLENTY), flip);
            pair.wait_for_channels(&client).await;
            assert_eq!(pair.counters().sessions, 1);
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_that_becomes_slow_holds_nothing_up_for_good() {
    in_time(async {
        let (pair, client) = Pair::echoing(PairOptions::default()).await;
        let slow = async {
            under_way(&pair, PLENTY / 8).await;
            let pipes = pipes(&pair);
            let delay = Duration::from_millis(200);
            pipes.iter().step_by(2).for_each(|pipe| pipe.delay(delay));
        };
        tokio::join!(echo_checked(&client, 7, PLENTY), slow);
        assert_eq!(pair.counters().sessions, 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_that_goes_takes_its_connections_along_and_comes_back_with_new_ones() {
    in_time(async {
        let (pair, client) = Pair::echoing(PairOptions::default()).await;
        let change = async {
            under_way(&pair, PLENTY / 4).await;
            pair.links.send_replace(Arc::new(vec![common::link(2)]));
            until("its channels are gone", || channels(&client) <= 2).await;
            let both = vec![common::link(1), common::link(2)];
            pair.links.send_replace(Arc::new(both));
        };
        tokio::join!(echo_checked(&client, 8, PLENTY), change);
        pair.wait_for_channels(&client).await;
        assert_eq!(pair.counters().sessions, 1);
    })
    .await;
}
