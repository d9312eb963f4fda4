use std::net::Ipv4Addr;

use hawser_keys::identity::Identity;
use hawser_keys::store::{NameStore, OrderStore, StateDir};
use hawser_link::links::Link;
use hawser_net::client::ClientConfig;
use hawser_net::gateway::GatewayConfig;

use super::*;

const BOB: &str = "bob@example.org";
/// Longer than two calls in a row take.
const IDLE: Duration = Duration::from_secs(60);

fn identity(seed: u8) -> Identity {
    Identity::from_seed([seed; 32])
}

/// A client of a host that does not answer.
fn client(gateway: PublicKey, addresses: Vec<HostPort>) -> Arc<Client> {
    let config = ClientConfig {
        name: "test".to_owned(),
        ..ClientConfig::new(identity(1), gateway, addresses)
    };
    let link = Link::loopback(Ipv4Addr::LOCALHOST.into());
    let links = watch::channel(Arc::new(vec![link])).1;
    Arc::new(Client::start(config, links))
}

/// Alice, with Bob in her book, and a session that has been begun with him.
fn alice(folder: &tempfile::TempDir) -> (Arc<NamedPeersState>, HostNameAt) {
    let state = StateDir::resolve(Some(folder.path().to_path_buf())).unwrap();
    let store = Arc::new(NameStore::open(&state).unwrap());
    let bob: HostNameAt = BOB.parse().unwrap();
    store.add(&bob, Some(identity(2).public())).unwrap();
    let book = Book::new(identity(1), store, OrderStore::open(&state).unwrap());
    let door = GatewayConfig {
        identity: identity(1),
        session: Default::default(),
        limits: Default::default(),
        congestion: None,
        predecessor: None,
    };
    let door = Gateway::start(door, Vec::new(), Arc::new(book.clone())).unwrap();
    let starts = Starts {
        direct: Box::new(|key, addresses| Some(client(key, addresses))),
        relayed: None,
        punching: None,
    };
    let (asks, _) = mpsc::channel(8);
    let shared = Arc::new(NamedPeersState::new(
        book,
        Arc::new(door),
        Offers::new([]),
        starts,
        asks,
    ));
    let waiting = shared.seek(&bob).unwrap();
    shared.reached(&bob, vec!["192.0.2.1:7443".parse().unwrap()]);
    drop(waiting);
    assert_eq!(shared.clients().len(), 1);
    (shared, bob)
}

/// Moves the last use of all sessions this far into the past.
fn pass(shared: &NamedPeersState, time: Duration) {
    for peer in shared.peers.lock().values_mut() {
        for running in peer.sessions.values_mut() {
            running.used = running.used.checked_sub(time).unwrap();
        }
    }
}

#[tokio::test]
async fn who_only_asks_for_a_session_does_not_keep_it() {
    let folder = tempfile::tempdir().unwrap();
    let (shared, bob) = alice(&folder);
    pass(&shared, 2 * IDLE);
    shared.way(&bob);
    shared.clients_of(&bob);
    assert_eq!(shared.take_unused(IDLE).len(), 1);
    assert!(shared.clients().is_empty());
}

#[tokio::test]
async fn a_stream_however_short_keeps_its_session() {
    let folder = tempfile::tempdir().unwrap();
    let (shared, bob) = alice(&folder);
    pass(&shared, 2 * IDLE);
    shared.way_for_stream(&bob);
    assert!(shared.take_unused(IDLE).is_empty());
    pass(&shared, 2 * IDLE);
    assert_eq!(shared.take_unused(IDLE).len(), 1);
}
