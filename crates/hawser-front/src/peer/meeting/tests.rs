use std::collections::BTreeMap;
use std::net::SocketAddr;

use hawser_net::client::{ClientConfig, OpenStreamError};
use hawser_net::gateway::{Admission, GatewayConfig, Incoming};
use hawser_net::host_port::HostPort;
use hawser_net::identity::Identity;
use hawser_net::links::Link;
use hawser_net::store::{NameStore, OrderStore, StateDir};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::timeout;

use super::*;
use crate::connection::{EarlyData, Origin};
use crate::gateway::{ClientId, MeetingPlace};

/// A gateway that lets its clients meet, and Bob, who may be met there by those in his book.
struct Scene {
    at: SocketAddr,
    gateway: PublicKey,
    place: Arc<MeetingPlace>,
    bob: Identity,
    door: Arc<Gateway>,
    _folder: tempfile::TempDir,
}

struct Everybody;

impl Admission for Everybody {
    fn admits(&self, _: &PublicKey) -> bool {
        true
    }

    fn is_enrolled(&self, _: &PublicKey) -> bool {
        true
    }

    fn enrol(&self, _: PublicKey, _: PublicKey, _: &str) -> Result<(), String> {
        Ok(())
    }
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
    }
}

async fn soon<F: Future>(what: F) -> F::Output {
    timeout(Duration::from_secs(30), what).await.unwrap()
}

impl Scene {
    /// Bob's book has the host with this key.
    async fn new(known: PublicKey) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let gateway = Gateway::start(settings(1), vec![listener], Arc::new(Everybody)).unwrap();
        let place = Arc::new(MeetingPlace::default());
        tokio::spawn(serve(gateway, Arc::clone(&place)));
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::resolve(Some(folder.path().to_path_buf())).unwrap();
        let store = Arc::new(NameStore::open(&state).unwrap());
        let alice = "alice@example.org".parse().unwrap();
        store.add(&alice, Some(known)).unwrap();
        let bob = identity(2);
        let order = OrderStore::open(&state).unwrap();
        let book = Book::new(bob.clone(), store, order);
        let door = Gateway::start(settings(2), Vec::new(), Arc::new(book.clone())).unwrap();
        let scene = Self {
            at,
            gateway: identity(1).public(),
            place,
            door: Arc::new(door),
            bob,
            _folder: folder,
        };
        let at_gateway = scene.client(2);
        tokio::spawn(be_met(Arc::clone(&at_gateway)));
        tokio::spawn(let_in(at_gateway, book, Arc::clone(&scene.door)));
        soon(async {
            while scene.place.stats().hosts == 0 {
                sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        scene
    }

    fn config(&self, seed: u8) -> ClientConfig {
        ClientConfig {
            identity: identity(seed),
            gateway: self.gateway,
            addresses: vec![HostPort::try_from(self.at).unwrap()],
            reached: Vec::new(),
            invite: None,
            name: "test".to_owned(),
            links: Vec::new(),
            rules: BTreeMap::new(),
            session: Default::default(),
            congestion: None,
            express: true,
            transport: Default::default(),
            relay: None,
        }
    }

    /// A client of the gateway with a key of its own.
    fn client(&self, seed: u8) -> Arc<Client> {
        Arc::new(Client::start(self.config(seed), links()))
    }

    fn way_to_bob(&self, seed: u8) -> ThroughGateway {
        ThroughGateway::new(self.client(seed), self.bob.public())
    }
}

async fn serve(gateway: Gateway, place: Arc<MeetingPlace>) {
    while let Some(Incoming { stream, peer }) = gateway.accept().await {
        let (place, client) = (Arc::clone(&place), ClientId::new(*peer.as_bytes()));
        let stream = Bonded::new(stream);
        tokio::spawn(async move {
            match Purpose::of(stream.open_metadata()) {
                Some(Purpose::BeMet) => place.be_met(client, stream).await,
                Some(Purpose::Meet(key)) => {
                    let _ = place.meet(client, ClientId::new(key), stream).await;
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
    let scene = Scene::new(identity(3).public()).await;
    let config = ClientConfig {
        gateway: scene.bob.public(),
        addresses: Vec::new(),
        relay: Some(Arc::new(scene.way_to_bob(3))),
        ..scene.config(3)
    };
    let alice = Client::start(config, links());
    let mut stream = soon(alice.open(vec![9].into())).await.unwrap();
    stream.write_all(&[7; 100_000]).await.unwrap();
    stream.shutdown().await.unwrap();
    let Incoming { mut stream, peer } = soon(scene.door.accept()).await.unwrap();
    assert_eq!(peer, identity(3).public());
    let mut came = Vec::new();
    soon(stream.read_to_end(&mut came)).await.unwrap();
    assert!(came == [7; 100_000]);
}

#[tokio::test]
async fn what_a_program_says_early_is_heard_before_its_stream_is_accepted() {
    let scene = Scene::new(identity(3).public()).await;
    let config = ClientConfig {
        gateway: scene.bob.public(),
        addresses: Vec::new(),
        relay: Some(Arc::new(scene.way_to_bob(3))),
        ..scene.config(3)
    };
    let alice = Arc::new(Client::start(config, links()));
    let early = EarlyData::default();
    early.put(b"hello");
    early.release();
    let origin = Origin {
        early: Some(early),
        ..Origin::default()
    };
    let opening = open(&alice, vec![9].into(), &origin);
    let answering = async {
        let Incoming { mut stream, .. } = scene.door.accept().await.unwrap();
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
    let scene = Scene::new(identity(3).public()).await;
    let to_bob = soon(scene.way_to_bob(4).connect()).await.unwrap_err();
    let nobody = ThroughGateway::new(scene.client(4), identity(9).public());
    let to_nobody = soon(nobody.connect()).await.unwrap_err();
    assert_eq!(to_bob.to_string(), why(DialError::HostUnreachable));
    assert_eq!(to_bob.to_string(), to_nobody.to_string());
    assert_eq!(scene.place.stats().bytes_up.as_u64(), 0);
    // The gateway itself may name whom it likes: a key is proved at the door.
    let config = ClientConfig {
        gateway: scene.bob.public(),
        relay: Some(Arc::new(scene.way_to_bob(3))),
        ..scene.config(4)
    };
    let mallory = Client::start(config, links());
    let refused = soon(mallory.admitted(Duration::from_secs(20))).await;
    assert_eq!(refused, Err(OpenStreamError::NotAdmitted));
}

#[tokio::test]
async fn a_client_has_so_many_connections_to_others_and_no_more() {
    let scene = Scene::new(identity(3).public()).await;
    let way = scene.way_to_bob(3);
    let mut open = Vec::new();
    let refused = loop {
        match soon(way.connect()).await {
            Ok(stream) => open.push(stream),
            Err(error) => break error,
        }
    };
    assert_eq!(open.len(), 32);
    assert_eq!(refused.to_string(), why(DialError::LimitReached));
}
