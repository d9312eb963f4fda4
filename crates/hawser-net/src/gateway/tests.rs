//! Gateways whose application takes nothing, and clients that send nothing.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hawser_channels::association::association_config;
use hawser_sctp::Local;
use hawser_session::seal::{Direction, SessionKeys};
use hawser_session::{ChannelSpec, SessionConfig, Side};
use hawser_skip::namespace::{in_namespace, ip};
use hawser_types::{ByteCount, StreamGroup};
use hawser_wire::{ChannelRole, JoinPrelude, StateFrame};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use super::*;
use crate::association::AssociationEndpoint;
use crate::clock;
use crate::driver::NewChannel;
use crate::session_budgets::SessionBudgets;
use hawser_keys::identity::Identity;
use hawser_seal::{Handshake, client_handshake};

#[test]
fn a_client_displaces_its_own_session_that_a_power_cut_has_silenced() {
    let test = "gateway::tests::a_client_displaces_its_own_session_that_a_power_cut_has_silenced";
    in_namespace(test, || {
        ip("link add here type veth peer name there");
        for link in ["lo", "here", "there"] {
            ip(&format!("link set {link} up"));
        }
        for address in [GATEWAY, BEFORE, AFTER] {
            ip(&format!("address add {address}/32 dev here"));
        }
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let limits = AcceptLimits {
                sessions: 1,
                ..AcceptLimits::default()
            };
            let listener = TcpListener::bind((GATEWAY, 0)).await.unwrap();
            let address = listener.local_addr().unwrap();
            let gateway = start(listener, limits);
            let _ghost = begin_session(BEFORE, address).await;
            counted(&gateway, |counters| counters.sessions == 1).await;
            // No route leads to the address any more: it sends no end and no acknowledgement.
            ip(&format!("address delete {BEFORE}/32 dev here"));
            let _back = begin_session(AFTER, address).await;
            counted(&gateway, |c| c.sessions == 2 || c.limited > 0).await;
            assert_eq!(gateway.counters().limited, 0);
            let remotes = gateway.sessions(0).into_iter().map(|it| it.remote.ip());
            let remotes: Vec<_> = remotes.collect();
            assert_eq!(remotes, [AFTER.parse::<IpAddr>().unwrap()]);
            // A session that lives is not displaced.
            let _third = begin_session(AFTER, address).await;
            counted(&gateway, |c| c.sessions == 3 || c.limited > 0).await;
            assert_eq!(gateway.counters().sessions, 2);
        });
    });
}

/// A session of the test's client from the address `from`; it sends nothing in it.
async fn begin_session(from: &str, gateway: SocketAddr) -> Handshake {
    begin_session_as(2, from, gateway).await
}

/// As [`begin_session`], for a client with another key.
async fn begin_session_as(seed: u8, from: &str, gateway: SocketAddr) -> Handshake {
    let socket = TcpSocket::new_v4().unwrap();
    socket
        .bind((from.parse::<IpAddr>().unwrap(), 0).into())
        .unwrap();
    let stream = socket.connect(gateway).await.unwrap();
    let (me, key) = (
        Identity::from_seed([seed; 32]),
        Identity::from_seed([1; 32]).public(),
    );
    client_handshake(stream, &me, key).await.unwrap()
}

async fn counted(gateway: &Gateway, condition: impl Fn(&GatewayCounters) -> bool) {
    let comes = async {
        while !condition(&gateway.counters()) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, comes).await.unwrap();
}

fn start(listener: TcpListener, limits: AcceptLimits) -> Gateway {
    let config = GatewayConfig {
        identity: Identity::from_seed([1; 32]),
        session: SessionConfig::default(),
        limits,
        congestion: None,
        predecessor: None,
    };
    Gateway::start(config, vec![listener], Arc::new(AdmitAll)).unwrap()
}

async fn gateway() -> (Gateway, SocketAddr, PublicKey) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let key = Identity::from_seed([1; 32]).public();
    (start(listener, AcceptLimits::default()), address, key)
}

/// If every client is admitted, keys cost nothing.
#[tokio::test]
async fn sessions_of_one_address_and_of_one_network_are_limited_whatever_their_keys() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let limits = AcceptLimits {
        sessions_per_source: 1,
        sessions_per_network: 2,
        ..AcceptLimits::default()
    };
    let gateway = start(listener, limits);
    let mut open = Vec::new();
    for (seed, from, sessions, limited) in [
        (2, "127.0.0.1", 1, 0),
        (3, "127.0.0.1", 1, 1),
        (4, "127.0.0.2", 2, 1),
        (5, "127.0.0.3", 2, 2),
        (6, "127.0.1.1", 3, 2),
    ] {
        open.push(begin_session_as(seed, from, address).await);
        let is_so = |it: &GatewayCounters| (it.sessions, it.limited) == (sessions, limited);
        counted(&gateway, is_so).await;
    }
    assert_eq!(gateway.session_count(), 3);
    gateway.end_idle(PATIENCE);
    assert_eq!(gateway.session_count(), 3);
    // Idle sessions end, whether their clients listen or not.
    gateway.end_idle(Duration::ZERO);
    let ended = async {
        while gateway.session_count() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, ended).await.unwrap();
}

/// A client may begin and end sessions without limit: those that the application has not taken
/// must not pile up.
#[tokio::test]
async fn sessions_that_ended_do_not_wait_to_be_accepted() {
    let (gateway, address, _) = gateway().await;
    // The application asks for sessions once, and takes none.
    let asked = tokio::time::timeout(Duration::from_millis(1), gateway.accept_session());
    assert!(asked.await.is_err());
    for number in 1..=SESSIONS {
        drop(begin_session("127.0.0.1", address).await);
        let ended = async {
            while gateway.counters().sessions < number || gateway.session_count() > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(PATIENCE, ended).await.unwrap();
    }
    let waiting = gateway.arrivals.lock().await.len();
    assert!(
        waiting <= ARRIVALS_QUEUE,
        "{waiting} sessions that are over are kept"
    );
}

const GATEWAY: &str = "10.9.0.1";
const BEFORE: &str = "10.9.0.2";
const AFTER: &str = "10.9.0.3";
const SESSIONS: u64 = 2 * ARRIVALS_QUEUE as u64;
const PATIENCE: Duration = Duration::from_secs(30);

/// A client's session over one TCP channel.
async fn session(address: SocketAddr, key: PublicKey) -> Driver {
    let stream = TcpStream::connect(address).await.unwrap();
    session_over(stream, key).await
}

/// As [`session`], over this connection.
async fn session_over(stream: TcpStream, key: PublicKey) -> Driver {
    let me = Identity::from_seed([2; 32]);
    let handshake = client_handshake(stream, &me, key).await.unwrap();
    let keys = SessionKeys::new(handshake.exporter.clone(), handshake.aead);
    let id = ChannelId::new(0);
    let new = NewChannel {
        reader: keys.reader(id, Direction::GatewayToClient, false),
        sealer: keys.sealer(id, Direction::ClientToGateway),
        stream: handshake.stream,
    };
    let config = SessionConfig::default();
    let budgets = SessionBudgets::of_client(ByteCount::from_mib(16));
    let driver = Driver::start(
        Side::Client,
        config,
        keys,
        Congestion::choose(None),
        budgets,
    );
    driver.add_channel(express(id, 0), new);
    driver
}

/// An express channel after this number of records, over a link of its own.
fn express(id: ChannelId, records: u64) -> ChannelSpec {
    ChannelSpec {
        id,
        role: ChannelRole::Express,
        link: LinkIndex::new(1 + id.value()),
        begun_by: Side::Client,
        records,
        segment_size: None,
    }
}

/// Joins the session over this connection.
async fn join(driver: &Driver, mut stream: TcpStream) {
    let id = until(|| driver.take_grant()).await;
    let keys = driver.keys();
    let mut sealer = keys.sealer(id, Direction::ClientToGateway);
    let mut reader = keys.reader(id, Direction::GatewayToClient, false);
    let spec = express(id, 1);
    let mut frame = BytesMut::new();
    let said = StateFrame::Join {
        role: spec.role,
        link: spec.link.value(),
    };
    said.encode(&mut frame);
    let prelude = JoinPrelude {
        session: driver.id(),
        channel: id,
    };
    let mut out = BytesMut::from(&prelude.encode()[..]);
    sealer.seal(clock::now(), &frame, &Default::default(), &mut out);
    stream.write_all(&out).await.unwrap();
    while reader.next_record().unwrap().is_none() {
        assert!(stream.read_buf(reader.buffer()).await.unwrap() > 0);
    }
    let new = NewChannel {
        stream,
        reader,
        sealer,
    };
    driver.add_channel(spec, new);
}

/// If a service saw the address that the session began from, it would blame that address's next
/// holder, and admit a client that had the address once.
#[tokio::test]
async fn a_stream_comes_from_the_address_of_the_channel_that_brought_it() {
    let (gateway, address, key) = gateway().await;
    let (left, held) = ([127, 0, 0, 5], [127, 0, 0, 6]);
    let connect = async |from: [u8; 4]| {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((from, 0).into()).unwrap();
        socket.connect(address).await.unwrap()
    };
    let driver = session_over(connect(left).await, key).await;
    let open = async || {
        driver.open_stream(StreamGroup::OWN, Bytes::new()).unwrap();
        let accepted = tokio::time::timeout(PATIENCE, gateway.accept()).await;
        accepted.unwrap().unwrap()
    };
    let incoming = open().await;
    assert_eq!(incoming.from.unwrap().ip(), IpAddr::from(left));
    let second = connect(held).await;
    let at = second.local_addr().unwrap();
    join(&driver, second).await;
    driver.drop_channel(ChannelId::new(0));
    let incoming = open().await;
    assert_eq!(incoming.from, Some(at));
    assert_eq!(incoming.ends.remote.ip(), IpAddr::from(left));
}

async fn until<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    let waiting = async {
        loop {
            match attempt() {
                Some(it) => return it,
                None => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("soon")
}

/// Announces an association; returns its number once the gateway has heard of it.
async fn announce(driver: &Driver, gateway: &Gateway) -> ChannelId {
    let id = until(|| driver.take_grant()).await;
    driver.with(|session, now| session.begin_association(now, id));
    let is_known = || {
        let sessions = gateway.shared.sessions.lock();
        let known = sessions.values().any(|it| it.driver.expected() == Some(id));
        known.then_some(())
    };
    until(is_known).await;
    id
}

/// The keys of an association cost memory from its announcement on, whether it ever begins or not.
#[tokio::test]
async fn a_client_that_announces_associations_without_end_holds_few_keys_and_none_after_it_left() {
    let (gateway, address, key) = gateway().await;
    let gateway = gateway.with_associations();
    let known = || gateway.shared.associations.get().unwrap().known();
    let driver = session(address, key).await;
    // Some associations begin and end: their keys have been used.
    let local = Local {
        link: LinkIndex::new(0),
        address: address.ip(),
    };
    let endpoint = AssociationEndpoint::bind_sealed(&[local], 0).unwrap();
    for _ in 0..4 {
        let id = announce(&driver, &gateway).await;
        let config = association_config(&driver.session_config(), Side::Client);
        let seal = driver.association_seal(id);
        let begun = endpoint.connect_sealed(config, &[address], seal).unwrap();
        begun.established().await.unwrap();
        drop(begun);
    }
    for _ in 0..200 {
        announce(&driver, &gateway).await;
        tokio::task::yield_now().await;
        assert!(known() <= MAX_KNOWN, "{} keys", known());
    }
    drop(endpoint);
    driver.abort();
    drop(driver);
    until(|| (known() == 0).then_some(())).await;
}

const MAX_KNOWN: usize = 6;
