//! A gateway with several addresses.

mod common;

use std::net::{SocketAddr, TcpListener};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use common::{Kind, Pair, PairOptions, channels, echo_checked, in_time, until};
use hawser_keys::host_port::HostPort;
use hawser_keys::identity::Identity;
use hawser_net::client::{Client, FirstConnection, SharedPort};
use hawser_seal::TlsClient;
use hawser_skip::ClosedPort;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

/// Returns the number of channels through each of the forwarders.
fn carried(pair: &Pair) -> Vec<usize> {
    let of_channels = |pipe: &&std::sync::Arc<common::Pipe>| pipe.kind() != Kind::Unknown;
    let pipes = pair.forwarders.iter().map(|forwarder| forwarder.pipes());
    pipes
        .map(|pipes| pipes.iter().filter(of_channels).count())
        .collect()
}

/// Returns a client whose two links have only their channels, distributed as `fits` demands. A busy
/// machine makes addresses unequal; then this tries again, until the test times out.
async fn settled(forwarders: usize, fits: impl Fn(&Pair) -> bool) -> (Pair, Client) {
    loop {
        let options = PairOptions {
            forwarders,
            ..PairOptions::default()
        };
        let (pair, client) = Pair::echoing(options).await;
        no_more(&pair).await;
        if fits(&pair) {
            return (pair, client);
        }
    }
}

/// Waits until each link has its two channels, and nothing else is open.
async fn no_more(pair: &Pair) {
    let all = || carried(pair).iter().sum::<usize>();
    until("no more than the channels", || all() == 4).await;
}

/// Returns whether both addresses carry a link, which they do when their delays are similar.
fn is_spread(pair: &Pair) -> bool {
    carried(pair) == [2, 2]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_spread_over_addresses_that_are_alike() {
    in_time(async {
        let (_pair, client) = settled(2, is_spread).await;
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
        let (pair, client) = settled(9, |pair| pair.counters().joins == 3).await;
        echo_checked(&client, 1, 1_000_000).await;
        no_more(&pair).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_stops_answering_is_left_for_another() {
    in_time(async {
        let (pair, client) = settled(2, is_spread).await;
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
        // Connections that lost the race for the handshake, or came too late, are closed after
        // that.
        until("no more than that", || carried(&pair) == [0, 4]).await;
        echo_checked(&client, 1, 1_000_000).await;
    })
    .await;
}

/// The name leads to this machine, where the gateway now uses another port.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_gateway_is_found_where_it_was_before() {
    in_time(async {
        let pair = Pair::new(PairOptions::default()).await;
        pair.serve_echo();
        let identity = Identity::generate().unwrap();
        pair.door.peers.lock().insert(identity.public());
        let mut config = pair.config(identity, None);
        config.addresses = vec!["localhost:1".parse().unwrap()];
        let nowhere = "127.0.0.1:2".parse().unwrap();
        config.reached = vec![nowhere, pair.address];
        let client = pair.start(config);
        pair.wait_for_channels(&client).await;
        echo_checked(&client, 1, 1_000_000).await;
        let reached = client.reached().borrow().clone();
        assert_eq!(reached, [pair.address, nowhere]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_session_each_link_says_what_it_waits_for_and_then_why_it_failed() {
    in_time(async {
        let pair = Pair::new(PairOptions::default()).await;
        // The listener's connections succeed, but stay silent.
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut config = pair.config(Identity::generate().unwrap(), None);
        config.addresses = vec![silent.local_addr().unwrap().try_into().unwrap()];
        let client = pair.start(config);
        let all_say = |what: &str| {
            let snapshot = client.snapshot(0);
            let says = |it: &Option<String>| it.as_ref().is_some_and(|it| it.contains(what));
            let links = snapshot.links;
            links.len() == 2 && links.iter().all(|it| says(&it.problem)) && says(&snapshot.problem)
        };
        until("they wait", || all_say("no answer from 127.0.0.1")).await;
        until("they gave up", || all_say("no answer to the handshake")).await;
        drop(silent);
        until("they hear why", || all_say("refused the connection")).await;
    })
    .await;
}

/// A port that a service shares. `is_taken`: handshakes there are answered.
#[derive(Debug)]
struct ServicePort {
    at: SocketAddr,
    is_taken: bool,
}

impl SharedPort for ServicePort {
    fn at(&self) -> SocketAddr {
        self.at
    }

    fn may_ask(&self) -> bool {
        true
    }

    fn has_taken(&self, _: BorrowedFd<'_>) -> bool {
        self.is_taken
    }
}

/// Returns a client whose session has begun at a service's port, `at`, and whose gateway answers at
/// no port of its own. `is_taken`: handshakes with that port are answered.
async fn begun_at_service(pair: &Pair, at: SocketAddr, is_taken: bool) -> Client {
    let closed = ClosedPort::new();
    let identity = Identity::generate().unwrap();
    let peers = &pair.door.peers;
    peers.lock().insert(identity.public());
    let mut config = pair.config(identity, None);
    config.addresses = vec![HostPort::try_from(closed.address()).unwrap()];
    let tls = TlsClient::new(&config.identity, pair.key).unwrap();
    let stream = TcpStream::connect(pair.address).await.unwrap();
    let first = FirstConnection {
        link: pair.links.borrow()[0].index,
        port: Arc::new(ServicePort { at, is_taken }),
        handshake: tls.handshake(stream).await.unwrap(),
    };
    Client::start_on(config, pair.links.subscribe(), first)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_no_port_of_the_gateway_answers_links_join_at_the_services() {
    in_time(async {
        let pair = Pair::new(PairOptions::default()).await;
        pair.serve_echo();
        let client = begun_at_service(&pair, pair.address, true).await;
        pair.wait_for_channels(&client).await;
        echo_checked(&client, 1, 1_000_000).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_said_to_a_service_that_has_the_connection() {
    in_time(async {
        let pair = Pair::new(PairOptions::default()).await;
        pair.serve_echo();
        let service = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = service.local_addr().unwrap();
        let client = begun_at_service(&pair, at, false).await;
        for _ in 0..2 {
            let (mut stream, _) = service.accept().await.unwrap();
            let mut said = Vec::new();
            // Any end of the connection is fine.
            let _ = stream.read_to_end(&mut said).await;
            assert_eq!(said, b"");
        }
        echo_checked(&client, 1, 1_000_000).await;
        assert_eq!(channels(&client), 1);
    })
    .await;
}
