use std::net::SocketAddr;

use hawser_keys::host_port::HostPort;
use hawser_keys::identity::Identity;
use hawser_keys::store::{NameStore, OrderStore, StateDir};
use hawser_link::links::Link;
use hawser_net::client::{ClientConfig, OpenStreamError};
use hawser_net::gateway::{AdmitAll, GatewayConfig, Incoming};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::timeout;

use super::*;
use crate::connection::{EarlyData, Origin};
use crate::gateway::{ClientId, MeetingPlace};

/// A gateway that lets its clients meet, and Bob, who accepts meetings with hosts in his book.
struct Scene {
    at: SocketAddr,
    gateway: PublicKey,
    place: Arc<MeetingPlace>,
    bob: Host,
}

/// A host that accepts meetings.
struct Host {
    key: PublicKey,
    book: Book,
    door: Arc<Gateway>,
    _folder: tempfile::TempDir,
}

fn identity(seed: u8) -> Identity {
    Identity::from_seed([seed; 32])
}

fn settings(seed: u8) -> GatewayConfig {
    GatewayConfig {
        identity: identity(seed),
        session: Default::default(),
        limits: Default::default(),
        congestion: None,
        predecessor: None,
    }
}

async fn soon<F: Future>(what: F) -> F::Output {
    timeout(Duration::from_secs(30), what).await.unwrap()
}

impl Scene {
    /// Bob's book has the hosts with these keys.
    async fn new(known: &[PublicKey]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let gateway = Gateway::start(settings(1), vec![listener], Arc::new(AdmitAll)).unwrap();
        let place = Arc::new(MeetingPlace::default());
        tokio::spawn(serve(gateway, Arc::clone(&place)));
        let scene = Self {
            at,
            gateway: identity(1).public(),
            place,
            bob: Host::new(2, known),
        };
        scene.until_it_may_be_met(2, &scene.bob).await;
        scene
    }

    /// Has a host announce that it accepts meetings.
    async fn until_it_may_be_met(&self, seed: u8, host: &Host) {
        let before = self.place.stats().hosts;
        let at_gateway = self.client(seed);
        tokio::spawn(be_met(Arc::clone(&at_gateway)));
        let book = host.book.clone();
        tokio::spawn(let_in(at_gateway, book, Arc::clone(&host.door)));
        soon(async {
            while self.place.stats().hosts == before {
                sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    }

    fn config(&self, seed: u8) -> ClientConfig {
        ClientConfig {
            name: "test".to_owned(),
            ..ClientConfig::new(
                identity(seed),
                self.gateway,
                vec![HostPort::try_from(self.at).unwrap()],
            )
        }
    }

    /// A client of the gateway with a key of its own.
    fn client(&self, seed: u8) -> Arc<Client> {
        Arc::new(Client::start(self.config(seed), links()))
    }

    fn way_to_bob(&self, seed: u8) -> ThroughGateway {
        ThroughGateway::new(self.client(seed), self.bob.key)
    }

    /// A client of Bob's that reaches him through the gateway.
    fn client_of_bob(&self, seed: u8) -> Client {
        let config = ClientConfig {
            gateway: self.bob.key,
            addresses: Vec::new(),
            relay: Some(Arc::new(self.way_to_bob(seed))),
            ..self.config(seed)
        };
        Client::start(config, links())
    }
}

impl Host {
    /// Its book has the hosts with these keys.
    fn new(seed: u8, known: &[PublicKey]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::resolve(Some(folder.path().to_path_buf())).unwrap();
        let store = Arc::new(NameStore::open(&state).unwrap());
        for (number, key) in known.iter().enumerate() {
            let name = format!("host{number}@example.org").parse().unwrap();
            store.add(&name, Some(*key)).unwrap();
        }
        let order = OrderStore::open(&state).unwrap();
        let book = Book::new(identity(seed), store, order);
        let door = Gateway::start(settings(seed), Vec::new(), Arc::new(book.clone())).unwrap();
        Self {
            key: identity(seed).public(),
            book,
            door: Arc::new(door),
            _folder: folder,
        }
    }
}

/// Connects until a connection is refused.
async fn connect_all(way: &ThroughGateway) -> (Vec<TcpStream>, io::Error) {
    let mut open = Vec::new();
    loop {
        match soon(way.connect()).await {
            Ok(stream) => open.push(stream),
            Err(error) => break (open, error),
        }
    }
}

async fn serve(gateway: Gateway, place: Arc<MeetingPlace>) {
    while let Some(incoming) = gateway.accept().await {
        let Incoming {
            stream,
            peer,
            account,
            ..
        } = incoming;
        let (place, client) = (Arc::clone(&place), ClientId::new(*peer.as_bytes()));
        let stream = Bonded::new(stream);
        tokio::spawn(async move {
            match Purpose::of(stream.open_metadata()) {
                Some(Purpose::BeMet) => place.be_met(client, stream).await,
                Some(Purpose::Meet(key)) => {
                    let caller = (client, &account);
                    let _ = place.meet(caller, ClientId::new(key), stream).await;
                }
                other => panic!("{other:?}"),
            }
        });
    }
}

fn links() -> watch::Receiver<Arc<Vec<Link>>> {
    let link = Link {
        has_default_route_v4: true,
        ..Link::loopback("127.0.0.1".parse().unwrap())
    };
    watch::channel(Arc::new(vec![link])).1
}

#[tokio::test]
async fn a_host_of_the_book_has_a_session_through_the_gateway() {
    let scene = Scene::new(&[identity(3).public()]).await;
    let alice = scene.client_of_bob(3);
    let mut stream = soon(alice.open(vec![9].into())).await.unwrap();
    stream.write_all(&[7; 100_000]).await.unwrap();
    stream.shutdown().await.unwrap();
    let Incoming {
        mut stream, peer, ..
    } = soon(scene.bob.door.accept()).await.unwrap();
    assert_eq!(peer, identity(3).public());
    let mut came = Vec::new();
    soon(stream.read_to_end(&mut came)).await.unwrap();
    assert!(came == [7; 100_000]);
}

#[tokio::test]
async fn what_a_program_says_early_is_heard_before_its_stream_is_accepted() {
    let scene = Scene::new(&[identity(3).public()]).await;
    let alice = Arc::new(scene.client_of_bob(3));
    let early = EarlyData::default();
    early.put(b"hello");
    early.release();
    let origin = Origin {
        early: Some(early),
        ..Origin::default()
    };
    let opening = open(&alice, vec![9].into(), &origin);
    let answering = async {
        let Incoming { mut stream, .. } = scene.bob.door.accept().await.unwrap();
        let mut came = [0; 5];
        stream.read_exact(&mut came).await.unwrap();
        stream.accept(Vec::new().into()).unwrap();
        came
    };
    let (opened, came) = soon(async { tokio::join!(opening, answering) }).await;
    assert!(opened.is_ok(), "{opened:?}");
    assert_eq!(&came, b"hello");
}

#[tokio::test]
async fn others_are_not_let_in_and_do_not_learn_who_is_there() {
    let scene = Scene::new(&[identity(3).public()]).await;
    let to_bob = soon(scene.way_to_bob(4).connect()).await.unwrap_err();
    let unknown = ThroughGateway::new(scene.client(4), identity(9).public());
    let to_unknown = soon(unknown.connect()).await.unwrap_err();
    assert_eq!(to_bob.to_string(), why(DialError::HostUnreachable));
    assert_eq!(to_bob.to_string(), to_unknown.to_string());
    assert_eq!(scene.place.stats().bytes_up.as_u64(), 0);
    // The gateway may name any key: the caller must prove its key at the door.
    let config = ClientConfig {
        gateway: scene.bob.key,
        relay: Some(Arc::new(scene.way_to_bob(3))),
        ..scene.config(4)
    };
    let mallory = Client::start(config, links());
    let refused = soon(mallory.admitted(Duration::from_secs(20))).await;
    assert_eq!(refused, Err(OpenStreamError::NotAdmitted));
}

#[tokio::test]
async fn each_host_of_the_book_has_so_many_connections_and_leaves_places_for_others() {
    let scene = Scene::new(&[identity(3).public(), identity(4).public()]).await;
    let (open, refused) = connect_all(&scene.way_to_bob(3)).await;
    assert_eq!(open.len(), 8);
    assert_eq!(refused.to_string(), why(DialError::LimitReached));
    soon(scene.way_to_bob(4).connect()).await.unwrap();
}

#[tokio::test]
async fn a_client_has_so_many_connections_to_others_at_the_gateway_and_no_more() {
    let alice = identity(3).public();
    let scene = Scene::new(&[alice]).await;
    let others: Vec<Host> = (10..15).map(|seed| Host::new(seed, &[alice])).collect();
    for (seed, host) in (10..).zip(&others) {
        scene.until_it_may_be_met(seed, host).await;
    }
    let at_gateway = scene.client(3);
    let mut open = Vec::new();
    for host in &others {
        let way = ThroughGateway::new(Arc::clone(&at_gateway), host.key);
        let (more, refused) = connect_all(&way).await;
        assert_eq!(refused.to_string(), why(DialError::LimitReached));
        open.push(more);
    }
    let counts: Vec<usize> = open.iter().map(Vec::len).collect();
    assert_eq!(counts, [8, 8, 8, 8, 0]);
}

#[tokio::test]
async fn a_client_says_so_many_times_that_it_may_be_met_and_no_more() {
    let scene = Scene::new(&[]).await;
    let client = scene.client(3);
    let mut accepted = Vec::new();
    let refused = loop {
        let opening = Purpose::BeMet.opening();
        match soon(open(&client, opening, &Origin::default())).await {
            Ok(stream) => accepted.push(stream),
            Err(error) => break error,
        }
        assert!(accepted.len() < 100);
    };
    assert_eq!(refused, DialError::LimitReached);
}

/// Silent callers that hold places do not make another caller wait.
#[tokio::test]
async fn callers_that_say_nothing_take_no_place_of_another_at_the_door() {
    let keys: Vec<PublicKey> = (3..8).map(|seed| identity(seed).public()).collect();
    let scene = Scene::new(&keys).await;
    let mut silent = Vec::new();
    for seed in 3..7 {
        silent.push(connect_all(&scene.way_to_bob(seed)).await.0);
    }
    assert_eq!(silent.iter().map(Vec::len).sum::<usize>(), 32);
    let caller = scene.client_of_bob(7);
    soon(caller.admitted(Duration::from_secs(20)))
        .await
        .unwrap();
    // No connection was closed to make room.
    assert_eq!(scene.bob.door.counters().limited, 0);
}
