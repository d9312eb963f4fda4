//! Flows of datagrams through a gateway, over a session on loopback.

mod common;

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use common::in_time;
use hawser_front::bonded::Bonded;
use hawser_front::connect::connect_tcp;
use hawser_front::datagram::opening;
use hawser_front::destination::Destination;
use hawser_front::gateway::{
    ClientId, ClientLimits, DatagramOptions, DestinationPolicy, Gateway as Relay, GatewayConfig,
};
use hawser_front::transport::{DialError, ResetCode};
use hawser_keys::identity::{Identity, PublicKey};
use hawser_net::client::Client;
use hawser_net::gateway::{Admission, Gateway};
use hawser_net::stream::BondStream;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, UdpSocket};

struct Known(BTreeSet<PublicKey>);

impl Admission for Known {
    fn admits(&self, key: &PublicKey) -> bool {
        self.0.contains(key)
    }

    fn is_enrolled(&self, key: &PublicKey) -> bool {
        self.admits(key)
    }

    fn enrol(&self, _: PublicKey, _: PublicKey, _: &str) -> Result<(), String> {
        Err("no client is invited".to_owned())
    }
}

/// Returns a client whose gateway lets it reach loopback addresses.
async fn client(config: GatewayConfig) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (near, far) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    let (client_key, gateway_key) = (near.public(), far.public());
    let door = Arc::new(Known(BTreeSet::from([client_key])));
    let gateway = hawser_net::gateway::GatewayConfig {
        identity: far,
        session: Default::default(),
        limits: Default::default(),
        congestion: None,
        predecessor: None,
    };
    let gateway = Gateway::start(gateway, vec![listener], door).unwrap();
    let allowed = vec!["127.0.0.0/8".parse().unwrap()];
    let policy = DestinationPolicy::new(allowed, |_| false);
    let relay = Arc::new(Relay::new(connect_tcp, policy, config));
    tokio::spawn(async move {
        while let Some(incoming) = gateway.accept().await {
            let relay = Arc::clone(&relay);
            tokio::spawn(async move {
                let client = ClientId::new(*incoming.peer.as_bytes());
                let stream = Bonded::new(incoming.stream);
                let _ = relay
                    .handle_datagrams(client, &incoming.account, stream)
                    .await;
            });
        }
    });
    common::client(address, gateway_key, near)
}

async fn mirror() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let at = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let mut bytes = [0; 2000];
        while let Ok((length, from)) = socket.recv_from(&mut bytes).await {
            let _ = socket.send_to(&bytes[..length], from).await;
        }
    });
    at
}

async fn open(client: &Client, opening: Bytes) -> BondStream {
    in_time(client.open(opening)).await.unwrap()
}

async fn refusal(client: &Client, opening: Bytes) -> Option<u32> {
    let mut stream = open(client, opening).await;
    in_time(stream.accepted()).await.unwrap_err();
    stream.reset_code()
}

async fn receive(stream: &BondStream) -> std::io::Result<Bytes> {
    in_time(poll_fn(|cx| stream.poll_datagram(cx))).await
}

#[tokio::test]
async fn a_flow_begins_in_its_stream_goes_on_beside_it_and_ends_when_nothing_moves() {
    let config = GatewayConfig {
        datagrams: DatagramOptions {
            // Longer than a busy machine takes for a datagram and its answer.
            idle: Duration::from_secs(3),
        },
        ..GatewayConfig::default()
    };
    let client = client(config).await;
    let server = mirror().await;
    let mut stream = open(&client, opening::of(&server.into(), false)).await;
    let mut early = Vec::new();
    for payload in [&b"first"[..], b""] {
        assert!(opening::put_early(payload, &mut early));
    }
    stream.write_all(&early).await.unwrap();
    let said = in_time(stream.accepted()).await.unwrap();
    assert_eq!(Destination::decode(&said), Ok(server.into()));
    assert_eq!(receive(&stream).await.unwrap(), "first");
    assert_eq!(receive(&stream).await.unwrap(), "");
    for number in 0..10 {
        let payload = Bytes::from(format!("number {number}"));
        stream.send_datagram(payload.clone()).unwrap();
        assert_eq!(receive(&stream).await.unwrap(), payload);
    }
    receive(&stream).await.unwrap_err();
    let code = u32::from(ResetCode::IdleTimeout.code());
    assert_eq!(stream.reset_code(), Some(code));
}

#[tokio::test]
async fn flows_are_checked_and_counted_like_connections() {
    let config = GatewayConfig {
        limits: ClientLimits {
            streams: 1,
            ..ClientLimits::default()
        },
        ..GatewayConfig::default()
    };
    let client = client(config).await;
    let code = |error: DialError| Some(u32::from(error.code()));
    let private = opening::of(&"10.0.0.1:53".parse().unwrap(), false);
    assert_eq!(
        refusal(&client, private).await,
        code(DialError::RefusedByPolicy)
    );
    let broken = Bytes::from_static(&[4, 0]);
    assert_eq!(
        refusal(&client, broken).await,
        code(DialError::MalformedDestination)
    );
    let flow = opening::of(&mirror().await.into(), false);
    let mut first = open(&client, flow.clone()).await;
    in_time(first.accepted()).await.unwrap();
    let limit = code(DialError::LimitReached);
    assert_eq!(refusal(&client, flow.clone()).await, limit);
    // The end of its stream frees a flow's place.
    drop(first);
    in_time(async {
        while open(&client, flow.clone()).await.accepted().await.is_err() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}
