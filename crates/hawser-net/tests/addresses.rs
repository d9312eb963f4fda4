//! A gateway with several addresses.

mod common;

use common::{Kind, Pair, PairOptions, echo_checked, in_time, until};
use hawser_net::client::Client;

/// How many channels go through each of the forwarders.
fn carried(pair: &Pair) -> Vec<usize> {
    let of_channels = |pipe: &&std::sync::Arc<common::Pipe>| pipe.kind() != Kind::Unknown;
    let pipes = pair.forwarders.iter().map(|forwarder| forwarder.pipes());
    pipes
        .map(|pipes| pipes.iter().filter(of_channels).count())
        .collect()
}

/// A client whose two links go to both addresses. Those are alike when they answer about as quickly,
/// which they do sooner or later, however busy the machine is.
async fn spread() -> (Pair, Client) {
    loop {
        let (pair, client) = Pair::echoing(PairOptions::default()).await;
        let all = || carried(&pair).iter().sum::<usize>();
        until("no more than the channels", || all() == 4).await;
        if carried(&pair) == [2, 2] {
            return (pair, client);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_spread_over_addresses_that_are_alike() {
    in_time(async {
        let (_pair, client) = spread().await;
        let statuses = client.snapshot(0).links;
        let remotes: Vec<_> = statuses.iter().map(|status| status.remote).collect();
        assert_eq!(remotes.len(), 2);
        assert_ne!(remotes[0], remotes[1]);
        echo_checked(&client, 1, 1_000_000).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_are_as_many_paths_as_links_whatever_the_number_of_addresses() {
    in_time(async {
        let options = PairOptions {
            links: 2,
            forwarders: 9,
            ..PairOptions::default()
        };
        let (pair, client) = Pair::echoing(options).await;
        echo_checked(&client, 1, 1_000_000).await;
        let all = || carried(&pair).iter().sum::<usize>();
        until("no more than that", || all() == 4).await;
        assert_eq!(pair.counters().joins, 3);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_stops_answering_is_left_for_another() {
    in_time(async {
        let (pair, client) = spread().await;
        pair.forwarders[0].go_down();
        until("the other one has both links", || carried(&pair)[1] == 4).await;
        pair.wait_for_channels(&client).await;
        echo_checked(&client, 1, 1_000_000).await;
        assert_eq!(pair.counters().sessions, 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_never_answered_holds_nothing_up() {
    in_time(async {
        let pair = Pair::new(PairOptions::default()).await;
        pair.forwarders[0].go_down();
        pair.serve_echo();
        let client = pair.enrolled_client();
        pair.wait_for_channels(&client).await;
        // Connections that lost the race for the handshake, or came too late, are closed after that.
        until("no more than that", || carried(&pair) == [0, 4]).await;
        echo_checked(&client, 1, 1_000_000).await;
    })
    .await;
}
