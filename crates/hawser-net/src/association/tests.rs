use std::collections::{BTreeSet, VecDeque};
use std::net::Ipv4Addr;

use bytes::{Bytes, BytesMut};
use hawser_sctp::{Closed, Message, OwnerBacklog};
use hawser_session::seal::{Direction, SessionKeys};
use hawser_types::{ByteCount, ChannelId, Instant, LinkIndex};
use hawser_wire::sctp::StreamNumber;
use tokio::net::{TcpListener, TcpStream, UdpSocket};

use super::keyed_endpoint::MAX_INCOMING;
use super::*;
use hawser_keys::identity::Identity;
use hawser_seal::{Handshake, client_handshake, server_handshake};

/// The keys that both ends of a real handshake have.
async fn keys() -> (SessionKeys, SessionKeys) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap());
    let (client, server) = tokio::join!(client, listener.accept());
    let (me, gateway) = (Identity::from_seed([1; 32]), Identity::from_seed([2; 32]));
    let client = client_handshake(client.unwrap(), &me, gateway.public());
    let allow: hawser_seal::Allow = Arc::new(|_| true);
    let server = server_handshake(server.unwrap().0, &[], &gateway, allow);
    let (client, server) = tokio::join!(client, server);
    let keys = |handshake: Handshake| SessionKeys::new(handshake.exporter, handshake.aead);
    (keys(client.unwrap()), keys(server.unwrap()))
}

fn up(keys: &SessionKeys, channel: u32) -> Seal {
    Seal::new(keys, ChannelId::new(channel), Direction::ClientToGateway)
}

fn down(keys: &SessionKeys, channel: u32) -> Seal {
    Seal::new(keys, ChannelId::new(channel), Direction::GatewayToClient)
}

fn loopback() -> [Local; 1] {
    [Local {
        link: LinkIndex::new(0),
        address: Ipv4Addr::LOCALHOST.into(),
    }]
}

fn sealed_endpoint() -> (AssociationEndpoint, SocketAddr) {
    let endpoint = AssociationEndpoint::bind_sealed(&loopback(), 0).unwrap();
    let port = endpoint.port().unwrap();
    (endpoint, (Ipv4Addr::LOCALHOST, port).into())
}

fn config() -> AssociationConfig {
    AssociationConfig::default()
}

fn message(payload: Bytes) -> Message {
    Message::new(payload)
}

async fn received(association: &AssociationHandle) -> Bytes {
    association.receive().await.unwrap().payload()
}

const STREAM: StreamNumber = StreamNumber::new(0);

#[tokio::test]
async fn messages_go_both_ways_under_the_keys_of_a_session() {
    let (client_keys, gateway_keys) = keys().await;
    let (gateway, address) = sealed_endpoint();
    let (client, _) = sealed_endpoint();
    let expected = gateway.expect(config(), down(&gateway_keys, 1)).unwrap();
    let there = client
        .connect_sealed(config(), &[address], up(&client_keys, 1))
        .unwrap();
    let here = expected.accept().await;
    there.established().await.unwrap();

    let large = Bytes::from(vec![7; 300_000]);
    there.send(STREAM, message(large.clone())).await.unwrap();
    assert_eq!(received(&here).await, large);
    here.send(STREAM, message("answer".into())).await.unwrap();
    assert_eq!(received(&there).await, "answer");
    let (ended, _) = tokio::join!(there.shutdown(), here.closed());
    assert_eq!(ended, Closed::Shutdown);
}

#[tokio::test]
async fn two_peers_share_a_port_and_each_has_its_own_association() {
    let (gateway, address) = sealed_endpoint();
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let mut clients = Vec::new();
    for _ in 0..2 {
        let (client_keys, gateway_keys) = keys().await;
        let (client, _) = sealed_endpoint();
        let expected = gateway.expect(config(), down(&gateway_keys, 1)).unwrap();
        let seal = up(&client_keys, 1);
        theirs.push(client.connect_sealed(config(), &[address], seal).unwrap());
        clients.push(client);
        ours.push(expected.accept().await);
    }
    for (number, there) in theirs.iter().enumerate().rev() {
        let text = format!("from {number}");
        there.send(STREAM, message(text.into())).await.unwrap();
    }
    for (number, here) in ours.iter().enumerate() {
        assert_eq!(received(here).await, format!("from {number}"));
    }
}

/// Datagrams of a stranger before, between and after change nothing and are not answered: an answer
/// would be the first datagram that comes back.
#[tokio::test]
async fn strangers_get_no_answer_and_change_nothing() {
    let (client_keys, gateway_keys) = keys().await;
    let (gateway, address) = sealed_endpoint();
    let expected = gateway.expect(config(), down(&gateway_keys, 1)).unwrap();
    let stranger = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let mut forged = BytesMut::new();
    let other_keys = keys().await.0;
    let mut sealer = other_keys.datagram_sealer(ChannelId::new(1), Direction::ClientToGateway);
    sealer.seal(Instant::ZERO, b"packet", &mut forged).unwrap();
    let right = client_keys.datagram_sealer(ChannelId::new(1), Direction::ClientToGateway);
    let mut true_id = BytesMut::new();
    { right }.seal(Instant::ZERO, b"", &mut true_id).unwrap();
    forged[..8].copy_from_slice(&true_id[..8]);
    for bytes in [&b""[..], b"x", &[0; 40], &forged] {
        stranger.send_to(bytes, address).await.unwrap();
    }

    let (client, _) = sealed_endpoint();
    let seal = up(&client_keys, 1);
    let there = client.connect_sealed(config(), &[address], seal).unwrap();
    let here = expected.accept().await;
    stranger.send_to(&forged, address).await.unwrap();
    there.send(STREAM, message("hello".into())).await.unwrap();
    assert_eq!(received(&here).await, "hello");
    let nothing = stranger.try_recv(&mut [0; 1]).unwrap_err();
    assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
}

#[tokio::test]
async fn a_datagram_channel_is_used_once_and_no_association_begins_without_one() {
    let (client_keys, gateway_keys) = keys().await;
    let (gateway, address) = sealed_endpoint();
    let expected = gateway.expect(config(), down(&gateway_keys, 1)).unwrap();
    let again = gateway.expect(config(), down(&gateway_keys, 1));
    assert!(matches!(again, Err(SealedError::KeyInUse)), "{again:?}");
    let (client, _) = sealed_endpoint();
    let there = client.connect_sealed(config(), &[address], up(&client_keys, 1));
    let there = there.unwrap();
    let here = expected.accept().await;
    there.established().await.unwrap();
    drop((there, here));
    let again = gateway.expect(config(), down(&gateway_keys, 1));
    assert!(matches!(again, Err(SealedError::KeyInUse)), "{again:?}");
    let again = client.connect_sealed(config(), &[address], up(&client_keys, 1));
    assert!(matches!(again, Err(SealedError::KeyInUse)), "{again:?}");
    assert!(gateway.expect(config(), down(&gateway_keys, 2)).is_ok());
    let plain = gateway.connect(config(), &[address]);
    assert_eq!(plain.unwrap_err(), ConnectError::NoRoute);
}

/// Begins an association from the SCTP port `port`; returns its handle and its outcome.
async fn begin(
    from: &AssociationEndpoint,
    to: SocketAddr,
    port: u16,
) -> (AssociationHandle, Result<(), Closed>) {
    let config = AssociationConfig { port, ..config() };
    let handle = from.connect(config, &[to]).unwrap();
    let begun = tokio::time::timeout(PATIENCE, handle.established()).await;
    (handle, begun.expect("it is decided soon"))
}

#[tokio::test]
async fn associations_that_are_not_accepted_are_bounded_and_those_beyond_are_ended() {
    let plain = || AssociationEndpoint::bind(config(), &loopback(), 0).unwrap();
    let (client, server) = (plain(), plain());
    let address = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), server.port().unwrap());
    let mut begun = Vec::new();
    for port in 0..MAX_INCOMING as u16 {
        let (handle, outcome) = begin(&client, address, 100 + port).await;
        assert_eq!(outcome, Ok(()));
        begun.push(handle);
    }
    let (refused, _) = begin(&client, address, 1000).await;
    let why = tokio::time::timeout(PATIENCE, refused.closed()).await;
    assert!(
        matches!(why, Ok(Closed::Refused | Closed::AbortedByPeer(_))),
        "{why:?}"
    );
    let plain = server.endpoints.get(None).expect("strangers are welcome");
    assert_eq!(plain.counts(), [MAX_INCOMING; 2]);
}

const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);

/// A client's heartbeats say which of its links they leave by.
#[tokio::test]
async fn the_peer_knows_the_links_below_paths_where_it_is_told() {
    let (client_keys, gateway_keys) = keys().await;
    let (gateway, address) = sealed_endpoint();
    let bound = Local {
        link: LinkIndex::new(LOOPBACK),
        ..loopback()[0]
    };
    let client = AssociationEndpoint::bind_sealed(&[bound], 0).unwrap();
    let expected = gateway.expect(config(), down(&gateway_keys, 1)).unwrap();
    let named = AssociationConfig {
        announces_links: true,
        ..config()
    };
    let seal = up(&client_keys, 1);
    let there = client.connect_sealed(named, &[address], seal).unwrap();
    let here = expected.accept().await;
    there.established().await.unwrap();
    // The heartbeat with the link leaves as soon as the path is known, among the first messages.
    let link = loop {
        there.send(STREAM, message("hear me".into())).await.unwrap();
        received(&here).await;
        if let Some(link) = here.paths().iter().find_map(|path| path.peer_link) {
            break link;
        }
    };
    assert_eq!(link, bound.link);
    assert_eq!(there.paths()[0].peer_link, None);
}

/// Index of the interface lo, in every namespace.
const LOOPBACK: u32 = 1;

/// The place of another of this host's loopback addresses.
fn other_place() -> Local {
    Local {
        link: LinkIndex::new(0),
        address: Ipv4Addr::new(127, 0, 0, 2).into(),
    }
}

#[tokio::test]
async fn an_association_moves_to_a_place_that_comes_when_the_one_it_began_at_goes() {
    let (client_keys, gateway_keys) = keys().await;
    let (gateway, address) = sealed_endpoint();
    let (client, _) = sealed_endpoint();
    let expected = gateway.expect(config(), down(&gateway_keys, 1)).unwrap();
    let seal = up(&client_keys, 1);
    let there = client.connect_sealed(config(), &[address], seal).unwrap();
    let here = expected.accept().await;
    there.established().await.unwrap();

    let elsewhere = Local {
        link: LinkIndex::new(0),
        address: "192.0.2.77".parse().unwrap(),
    };
    let failed = client.set_locals(&[loopback()[0], other_place(), elsewhere]);
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert_eq!(failed[0].0, elsewhere);
    assert!(client.set_locals(&[other_place()]).is_empty());
    there.send(STREAM, message("moved".into())).await.unwrap();
    assert_eq!(received(&here).await, "moved");
    here.send(STREAM, message("found".into())).await.unwrap();
    assert_eq!(received(&there).await, "found");
    let routes: Vec<Local> = there.paths().iter().map(|it| it.route.local).collect();
    assert_eq!(routes, [other_place()]);
    let path = &there.paths()[0];
    assert!(path.sent.packets > 0 && path.received.bytes > ByteCount::ZERO);
}

#[tokio::test]
async fn many_messages_go_and_come_at_once_and_there_is_room_again_when_they_have_left() {
    let (client_keys, gateway_keys) = keys().await;
    let (gateway, address) = sealed_endpoint();
    let (client, _) = sealed_endpoint();
    let expected = gateway.expect(config(), down(&gateway_keys, 1)).unwrap();
    let seal = up(&client_keys, 1);
    let there = client.connect_sealed(config(), &[address], seal).unwrap();
    let here = expected.accept().await;
    there.established().await.unwrap();
    assert_eq!(there.streams(), config().outbound_streams);

    let payload = Bytes::from(vec![7; 60_000]);
    let one = (STREAM, message(payload.clone()));
    // More than the send buffer holds.
    let mut waiting = VecDeque::from(vec![one; 200]);
    let mut messages = Vec::new();
    let sending = async {
        while !waiting.is_empty() {
            there
                .send_some(&mut waiting, OwnerBacklog::default())
                .unwrap();
            there.room(ByteCount::from(payload.len())).await;
        }
    };
    let receiving = async {
        while messages.len() < 200 {
            assert!(here.receive_some(&mut messages).await);
        }
    };
    tokio::join!(sending, receiving);
    assert!(messages.iter().all(|it| it.payload() == payload));
    there.abort(Bytes::new());
    assert!(!here.receive_some(&mut messages).await);
    assert_eq!(messages.len(), 200);
}

/// The peer reads nothing, so that the buffer stays full, however little waits for a packet.
#[tokio::test]
async fn a_writer_with_a_full_buffer_waits_for_the_peer_and_does_not_spin() {
    let hosts = Hosts::new().await;
    let (there, _here) = hosts.associate(1).await;
    let one = (STREAM, message(Bytes::from(vec![7; 60_000])));
    let mut waiting = VecDeque::from(vec![one; 1000]);
    let mut before = 0;
    while waiting.len() != before {
        before = waiting.len();
        there
            .send_some(&mut waiting, OwnerBacklog::default())
            .unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert!(before > 0, "the buffer is not full");
    let runtime = tokio::runtime::Handle::current();
    let (answer, answered) = std::sync::mpsc::channel();
    // On a thread of its own: a poll that spins never returns.
    std::thread::spawn(move || {
        let _entered = runtime.enter();
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let below = ByteCount::new(u64::MAX);
        let is_pending = std::pin::pin!(there.room(below))
            .poll(&mut context)
            .is_pending();
        answer.send(is_pending)
    });
    assert_eq!(answered.recv_timeout(PATIENCE), Ok(true));
}

/// Two ends under the keys of one session.
struct Hosts {
    gateway: AssociationEndpoint,
    client: AssociationEndpoint,
    address: SocketAddr,
    client_keys: SessionKeys,
    gateway_keys: SessionKeys,
}

impl Hosts {
    async fn new() -> Self {
        let (gateway, address) = sealed_endpoint();
        let (client, _) = sealed_endpoint();
        let (client_keys, gateway_keys) = keys().await;
        Self {
            gateway,
            client,
            address,
            client_keys,
            gateway_keys,
        }
    }

    /// The client's end of an established association, and the gateway's.
    async fn associate(&self, channel: u32) -> (AssociationHandle, AssociationHandle) {
        let seal = down(&self.gateway_keys, channel);
        let expected = self.gateway.expect(config(), seal).unwrap();
        let seal = up(&self.client_keys, channel);
        let there = self.client.connect_sealed(config(), &[self.address], seal);
        let there = there.unwrap();
        let here = expected.accept().await;
        there.established().await.unwrap();
        (there, here)
    }
}

/// Checks that the common order lists each association's timer and no other; returns their number.
fn timers_are_true(endpoint: &AssociationEndpoint) -> usize {
    let endpoints = endpoint.endpoints.list();
    let timers: BTreeSet<_> = endpoints.iter().flat_map(|it| it.timers()).collect();
    assert_eq!(timers, endpoint.endpoints.timers().all());
    timers.len()
}

#[tokio::test]
async fn each_association_has_its_own_timer_until_it_is_over() {
    let hosts = Hosts::new().await;
    let mut ends = Vec::new();
    for channel in 1..=3 {
        ends.push(hosts.associate(channel).await);
    }
    assert_eq!([&hosts.client, &hosts.gateway].map(timers_are_true), [3, 3]);
    for (there, here) in &ends {
        there.send(STREAM, message("news".into())).await.unwrap();
        assert_eq!(received(here).await, "news");
        assert_eq!([&hosts.client, &hosts.gateway].map(timers_are_true), [3, 3]);
    }
    let (there, here) = ends.pop().unwrap();
    drop(there);
    assert_eq!(timers_are_true(&hosts.client), 2);
    here.closed().await;
    assert_eq!(timers_are_true(&hosts.gateway), 2);
    drop((ends, here));
    assert_eq!([&hosts.client, &hosts.gateway].map(timers_are_true), [0, 0]);
}

/// Measures a message and its answer while other associations are idle at both ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures, and asserts no time: cargo xtask cost"]
async fn what_a_message_costs_beside_idle_associations() {
    let hosts = Hosts::new().await;
    let mut ends = Vec::new();
    for idle in [0, 100, 1000] {
        while ends.len() <= idle {
            let channel = ends.len() as u32 + 1;
            ends.push(hosts.associate(channel).await);
        }
        let (there, here) = &ends[0];
        let begun = std::time::Instant::now();
        for _ in 0..MEASURED {
            there.send(STREAM, message("call".into())).await.unwrap();
            received(here).await;
            here.send(STREAM, message("answer".into())).await.unwrap();
            received(there).await;
        }
        let each = begun.elapsed() / MEASURED;
        println!("{idle} idle associations: a message and its answer take {each:?}");
    }
}

const MEASURED: u32 = 2000;
