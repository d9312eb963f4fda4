use std::net::IpAddr;
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use hawser_capture::{Learnt, Outcome, kernel_time};
use hawser_keys::host_port::HostPort;
use hawser_keys::identity::Identity;
use hawser_keys::store::StateDir;
use hawser_keys::unix_time::UnixTime;
use hawser_link::links::Link;
use hawser_net::client::{ClientConfig, FirstConnection, SharedPort as _};
use hawser_net::gateway::{AdmitAll, Gateway, GatewayConfig, Incoming};
use hawser_policy::{Action, Mode, Rule};
use hawser_wire::{Offer, OfferForm, SynOption};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};

use super::*;
use crate::connect::connect_tcp;
use crate::connection::BondedServers as _;
use crate::incoming::IncomingStream as _;
use crate::own_ports::at_peer;
use crate::peer::PeerSettings;
use crate::transport::DialError;

/// A server that admits every host, echoes on one port and refuses streams to others, and a host
/// that looks for it.
struct Scene {
    server: Arc<Gateway>,
    servers: DiscoveredServers,
    heard: mpsc::Sender<Heard>,
    rules: watch::Sender<Arc<RuleSet>>,
    folder: tempfile::TempDir,
    door: SocketAddr,
    /// Whether new connections to the door go unanswered.
    is_closed: Arc<AtomicBool>,
    answer: Arc<Mutex<Option<SynOption>>>,
    /// Time for which connections have been silent when they are seen.
    silence: Arc<Mutex<Duration>>,
}

fn server_key() -> PublicKey {
    Identity::from_seed([7; 32]).public()
}

/// Returns the address of a service of the server, fronted or not.
fn service(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn offer(key: PublicKey) -> Option<Offer> {
    Some(Offer {
        form: OfferForm::Binary,
        version: 1,
        interfaces: 1,
        key_hint: Some(key.hint()),
    })
}

/// Reads the file of pins.
fn pins(folder: &tempfile::TempDir) -> PinStore {
    let dir = StateDir::resolve(Some(folder.path().to_path_buf())).unwrap();
    PinStore::open(&dir).unwrap()
}

async fn until(what: &str, condition: impl Fn() -> bool) {
    let waiting = async {
        while !condition() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    let came = timeout(Duration::from_secs(30), waiting).await;
    assert!(came.is_ok(), "never: {what}");
}

impl Scene {
    /// `pinned` is pinned for the service before, and confirmed.
    async fn new(pinned: Option<PublicKey>, require_bonded: bool) -> Self {
        Self::with((pinned, require_bonded), true).await
    }

    /// As `new`; `speaking` says whether handshakes are observed.
    async fn with((pinned, require_bonded): (Option<PublicKey>, bool), speaking: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let door = listener.local_addr().unwrap();
        let config = GatewayConfig {
            identity: Identity::from_seed([7; 32]),
            session: Default::default(),
            limits: Default::default(),
            congestion: None,
            predecessor: None,
        };
        let server = Gateway::start(config, vec![listener], Arc::new(AdmitAll)).unwrap();
        let server = Arc::new(server);
        tokio::spawn(serve(Arc::clone(&server)));
        let folder = tempfile::tempdir().unwrap();
        let pins = pins(&folder);
        let now = UnixTime::now();
        if let Some(key) = pinned {
            let until = now + Duration::from_secs(60);
            pins.confirm(service(PORT), key, (until, now)).unwrap();
        }
        let settings = PeerSettings {
            pause: Duration::from_millis(1),
            ..PeerSettings::at_port(door.port())
        };
        let (heard, hears) = mpsc::channel(8);
        let is_closed = Arc::new(AtomicBool::new(false));
        let answer = Arc::<Mutex<Option<SynOption>>>::default();
        let (closed, answers) = (Arc::clone(&is_closed), Arc::clone(&answer));
        let silence = Arc::<Mutex<Duration>>::default();
        let silent_for = Arc::clone(&silence);
        let (rules, followed) = watch::channel(Arc::default());
        let servers = DiscoveredServers::start(DiscoverySettings {
            finder: PeerFinder::of_anyone(connect_tcp, settings),
            pins,
            start: Box::new(move |pin, identity, first| {
                let to = if closed.load(Ordering::Relaxed) {
                    UNUSED
                } else {
                    door
                };
                Some(client(to, pin.key, identity, first))
            }),
            is_enrolled: Box::new(|at| at == ENROLLED),
            rules: followed,
            require_bonded,
            handshakes: speaking.then(|| Handshakes {
                heard: hears,
                answers: Box::new(move |_| learnt((*answers.lock())?, *silent_for.lock())),
                are_silent: Box::new(|at| at == SILENT),
            }),
        });
        Self {
            server,
            servers,
            heard,
            rules,
            folder,
            door,
            is_closed,
            answer,
            silence,
        }
    }

    /// Closes the server's own port, and has handshakes of its services answer with or without
    /// *bond*.
    fn close(&self, bond: bool) {
        self.is_closed.store(true, Ordering::Relaxed);
        *self.answer.lock() = offer(server_key()).map(|offer| SynOption {
            offer,
            bond,
            connection: 1,
        });
    }

    /// Connects to the service with a handshake that asks for a bond.
    async fn connect_asking<'a>(&'a self, origin: &'a Origin) -> BondAnswer<'a, Bonded> {
        let stream = connect_tcp(self.door).await.unwrap();
        let to = service(PORT).into();
        self.servers.bond_answer(stream.as_fd(), &to, origin)
    }

    /// Opens a stream over a session that begins on a connection to the service. On a busy machine
    /// a connection may be silent for too long; then another one is made.
    async fn bond(&self, origin: &Origin) -> Bonded {
        let bonding = async {
            loop {
                let BondAnswer::Taken(way) = self.connect_asking(origin).await else {
                    panic!("the server has agreed");
                };
                assert_eq!(way.is_only_way, self.servers.shared.require_bonded);
                if let Ok(stream) = way.dialing.await {
                    return stream;
                }
            }
        };
        timeout(Duration::from_secs(30), bonding).await.unwrap()
    }

    async fn hear(&self, offer: Option<Offer>) {
        let to = service(PORT);
        self.heard.send(Heard { to, offer }).await.unwrap();
    }

    /// Notes that a connection to the service has gone over a link.
    fn look_for(&self, port: u16) {
        let at = service(port);
        self.servers.look_for(at, &at.into(), &Origin::default());
    }

    /// Opens a stream to a service, if connections there go over a session.
    async fn dial(&self, port: u16) -> Option<Result<Bonded, DialError>> {
        let (destination, origin) = (service(port).into(), Origin::default());
        let way = self.servers.dial(&destination, &origin)?;
        Some(way.dialing.await)
    }

    /// Opens a stream as soon as there is a session.
    async fn dial_soon(&self, port: u16) -> Result<Bonded, DialError> {
        let dialing = async {
            loop {
                if let Some(dialed) = self.dial(port).await {
                    return dialed;
                }
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(Duration::from_secs(30), dialing).await.unwrap()
    }

    fn problem(&self) -> Option<Problem> {
        Some(self.servers.not_bonded().first()?.problem)
    }

    /// Returns for how much longer the server's key is pinned.
    fn pinned_for(&self) -> Duration {
        let now = UnixTime::now();
        let pin = pins(&self.folder).pin(service(PORT), now);
        pin.map_or(Duration::ZERO, |pin| pin.until.since(now))
    }
}

async fn serve(server: Arc<Gateway>) {
    while let Some(Incoming { stream, .. }) = server.accept().await {
        let wanted = Bytes::copy_from_slice(&WANTED.to_be_bytes());
        let mut stream = Bonded::new(stream).with_answer(wanted);
        if stream.open_metadata() != at_peer(PORT).to_bytes() {
            stream.refuse(DialError::RefusedByPolicy);
            continue;
        }
        tokio::spawn(async move {
            stream.accept();
            let (mut from, mut to) = tokio::io::split(stream);
            let _ = tokio::io::copy(&mut from, &mut to).await;
        });
    }
}

fn learnt(answer: SynOption, silence: Duration) -> Option<Learnt> {
    Some(Learnt {
        to: service(PORT),
        link: Some(Link::loopback("127.0.0.1".parse().ok()?).index),
        at: kernel_time() - silence,
        outcome: Outcome::Answered(answer),
    })
}

fn client(
    door: SocketAddr,
    server: PublicKey,
    identity: Identity,
    first: Option<FirstConnection>,
) -> Arc<Client> {
    let config = ClientConfig {
        ..ClientConfig::new(identity, server, vec![HostPort::try_from(door).unwrap()])
    };
    let links = vec![Link::loopback("127.0.0.1".parse().unwrap())];
    let (_, links) = watch::channel(Arc::new(links));
    Arc::new(match first {
        Some(first) => Client::start_on(config, links, first),
        None => Client::start(config, links),
    })
}

#[tokio::test]
async fn connections_to_a_server_that_says_it_has_hawser_go_over_a_session_with_it() {
    let scene = Scene::new(None, false).await;
    assert!(scene.dial(PORT).await.is_none(), "nothing is known yet");
    scene.look_for(PORT);
    scene.hear(offer(server_key())).await;
    let mut stream = scene.dial_soon(PORT).await.unwrap();
    stream.write_all(b"x").await.unwrap();
    stream.read_exact(&mut [0]).await.unwrap();
    assert_eq!(scene.servers.opened(), 1);
    assert_eq!(scene.problem(), None);
    let [session] = &scene.server.sessions(0)[..] else {
        panic!("one session");
    };
    // The session uses a key that no other server has seen.
    let own = pins(&scene.folder).identity(service(PORT), UnixTime::now());
    assert_eq!(session.peer, own.unwrap().public());
    until("the server's wish is written down", || {
        scene.pinned_for() > Duration::from_secs(u64::from(WANTED) - 100)
    })
    .await;
    // Connections to a port that is not fronted go as usual.
    scene.look_for(22);
    let refused = scene.dial_soon(22).await;
    assert_eq!(refused.err(), Some(DialError::RefusedByPolicy));
    assert!(scene.dial(22).await.is_none());
}

#[tokio::test]
async fn where_handshakes_speak_a_server_is_probed_once_its_own_has_said_that_it_has_hawser() {
    let scene = Scene::new(None, false).await;
    let may_have_it = |at| scene.servers.shared.may_have_it(at);
    assert!(!may_have_it(service(PORT)));
    assert!(may_have_it(SocketAddr::new(SILENT, PORT)));
    scene.hear(offer(server_key())).await;
    until("it is heard", || may_have_it(service(PORT))).await;
    assert!(!may_have_it(service(22)));
    // No connection that Hawser could have taken over has gone there.
    let shared = &scene.servers.shared;
    assert!(
        !shared
            .servers
            .lock()
            .is_asked(service(PORT), Instant::now())
    );
    assert!(scene.servers.clients().is_empty());
    let scene = Scene::new(Some(server_key()), false).await;
    let may_have_it = |at| scene.servers.shared.may_have_it(at);
    assert!(may_have_it(service(PORT)) && !may_have_it(service(22)));
    let scene = Scene::with((None, false), false).await;
    assert!(scene.servers.shared.may_have_it(service(PORT)));
}

#[tokio::test]
async fn a_hint_of_another_key_ends_it_before_anything_is_begun() {
    let other = Identity::from_seed([8; 32]).public();
    let scene = Scene::new(Some(server_key()), false).await;
    scene.hear(offer(other)).await;
    until("it is told", || scene.problem() == Some(Problem::OtherHint)).await;
    // The connection with that handshake does not have the server asked either.
    scene.look_for(PORT);
    let shared = &scene.servers.shared;
    assert!(shared.is_hint_amiss(service(PORT)));
    scene.hear(None).await;
    // Heard results are handled in order, so the missing offer is handled by now.
    let right = Heard {
        to: service(22),
        offer: offer(server_key()),
    };
    scene.heard.send(right).await.unwrap();
    until("it is heard", || {
        shared.servers.lock().has_offered(service(22))
    })
    .await;
    assert_eq!(scene.problem(), Some(Problem::OtherHint));
    assert_eq!(scene.server.counters().connections, 0);
    // The hint must match the key of a server that is not known yet, too.
    let scene = Scene::new(None, false).await;
    scene.look_for(PORT);
    scene.hear(offer(other)).await;
    until("it is told", || scene.problem() == Some(Problem::OtherHint)).await;
    assert_eq!(scene.server.counters().sessions, 0);
    assert!(scene.dial(PORT).await.is_none());
}

#[tokio::test]
async fn a_server_that_says_nothing_any_more_is_told_unless_a_session_with_it_runs() {
    let scene = Scene::new(Some(server_key()), false).await;
    scene.hear(offer(server_key())).await;
    scene.hear(None).await;
    let not_offered = || scene.problem() == Some(Problem::NotOffered);
    until("it is told", not_offered).await;
    scene.look_for(PORT);
    drop(scene.dial_soon(PORT).await.unwrap());
    until("that is over", || scene.problem().is_none()).await;
    take_in(
        &scene.servers.shared,
        Heard {
            to: service(PORT),
            offer: None,
        },
    );
    assert_eq!(scene.problem(), None);
}

#[tokio::test]
async fn connections_that_rules_keep_from_some_links_have_no_server_asked() {
    let scene = Scene::new(Some(server_key()), false).await;
    let (at, shared, origin) = (service(PORT), &scene.servers.shared, Origin::default());
    let is_asked = || shared.servers.lock().is_asked(at, Instant::now());
    let direct = Rule {
        then: Action {
            mode: Some(Mode::Direct),
            ..Action::default()
        },
        ..Rule::default()
    };
    scene.rules.send_replace(Arc::new(RuleSet::new([direct])));
    scene.look_for(PORT);
    scene.servers.note_placed(at, &origin);
    assert!(!is_asked());
    scene.rules.send_replace(Arc::default());
    scene.servers.note_placed(at, &origin);
    assert!(is_asked());
}

#[tokio::test]
async fn where_handshakes_are_not_heard_placed_connections_have_only_known_servers_asked() {
    for (pinned, is_likely) in [(None, false), (Some(server_key()), true)] {
        let scene = Scene::with((pinned, false), false).await;
        let shared = &scene.servers.shared;
        assert_eq!(shared.is_likely(service(PORT)), is_likely);
        assert!(shared.may_have_it(service(PORT)));
    }
}

#[tokio::test]
async fn another_key_than_the_pinned_one_gets_no_session_and_is_refused_where_that_is_wanted() {
    let pinned = Identity::from_seed([8; 32]).public();
    let got = server_key();
    for require_bonded in [false, true] {
        let scene = Scene::new(Some(pinned), require_bonded).await;
        scene.look_for(PORT);
        let other = Some(Problem::OtherKey { pinned, got });
        until("it is told", || scene.problem() == other).await;
        let dialed = scene.dial(PORT).await.map(Result::err);
        let refused = require_bonded.then_some(Some(DialError::RefusedByPolicy));
        assert_eq!(dialed, refused);
        assert_eq!(scene.server.counters().sessions, 0);
    }
}

#[tokio::test]
async fn where_a_session_is_required_the_first_connection_waits_for_it() {
    let scene = Scene::new(Some(server_key()), true).await;
    let dialed = scene.dial(PORT).await;
    let mut stream = dialed.expect("it goes over a session").unwrap();
    stream.write_all(b"x").await.unwrap();
    stream.read_exact(&mut [0]).await.unwrap();
}

#[tokio::test]
async fn a_session_on_a_connection_takes_the_place_of_one_without_an_answer() {
    let scene = Scene::new(Some(server_key()), true).await;
    scene.close(true);
    let (destination, origin) = (service(PORT).into(), Origin::default());
    let way = scene.servers.dial(&destination, &origin).unwrap();
    assert!(way.is_only_way);
    let mut waiting = way.dialing;
    assert!(
        (&mut waiting).now_or_never().is_none(),
        "nothing answers there"
    );
    // A session is required, so an earlier failure does not matter.
    scene.servers.note_overtaken(service(PORT));
    let asks = || {
        let at = service(PORT);
        scene.servers.asks_bond(at, &destination, &origin)
    };
    assert!(asks());
    let mut stream = scene.bond(&origin).await;
    stream.write_all(b"x").await.unwrap();
    stream.read_exact(&mut [0]).await.unwrap();
    assert!(
        !scene
            .servers
            .shared
            .servers
            .lock()
            .is_set_aside(service(PORT), Instant::now())
    );
    // Another connection uses the same session, and resets its own connection.
    drop(scene.bond(&origin).await);
    assert_eq!(scene.server.counters().sessions, 1);
    assert_eq!(scene.servers.opened(), 2);
    // Without a session, a port that answers without a bond is not asked for a while.
    scene.close(false);
    let refused = scene.connect_asking(&origin).await;
    assert!(matches!(refused, BondAnswer::Refused));
    assert!(!asks());
}

#[tokio::test]
async fn a_connection_that_was_silent_for_too_long_is_reset_and_begins_nothing() {
    let scene = Scene::new(None, false).await;
    scene.close(true);
    let origin = Origin::default();
    // The connection is stale, however quick this process is from then on.
    *scene.silence.lock() = Duration::from_millis(60);
    let BondAnswer::Taken(way) = scene.connect_asking(&origin).await else {
        panic!("the server has agreed");
    };
    let unavailable = Some(DialError::GatewayUnavailable);
    assert_eq!(way.dialing.await.err(), unavailable);
    assert_eq!(scene.servers.shared.pool.clients().len(), 0);
    assert_eq!(scene.server.counters().sessions, 0);
}

#[tokio::test]
async fn a_join_on_a_connection_that_was_silent_for_too_long_says_nothing_there() {
    let scene = Scene::new(None, false).await;
    scene.close(true);
    let shared = &scene.servers.shared;
    let port = shared.service_port(service(PORT), server_key().hint());
    let stream = connect_tcp(scene.door).await.unwrap();
    *scene.silence.lock() = Duration::from_millis(60);
    assert!(!port.has_taken(stream.as_fd()));
    // The server has answered, and may be asked again.
    assert!(port.may_ask());
    *scene.silence.lock() = Duration::ZERO;
    let taken = || port.has_taken(stream.as_fd());
    // On a busy machine even this connection may be seen too late.
    until("one is soon enough", taken).await;
}

#[tokio::test]
async fn a_port_that_is_not_fronted_goes_as_ever_even_where_sessions_are_required() {
    let scene = Scene::with((None, true), false).await;
    let (destination, origin) = (service(22).into(), Origin::default());
    let look = || scene.look_for(22);
    let pinned = || scene.servers.shared.pin(service(22));
    look();
    until("its key is pinned", || pinned().is_some()).await;
    let required = || scene.servers.required(service(22), &destination, &origin);
    assert!(required().is_none(), "no stream was accepted");
    let dialing = async {
        loop {
            if let Some(way) = scene.servers.dial(&destination, &origin) {
                assert!(!way.is_only_way);
                return way.dialing.await.err();
            }
            sleep(Duration::from_millis(5)).await;
        }
    };
    let refused = timeout(Duration::from_secs(30), dialing).await.unwrap();
    assert_eq!(refused, Some(DialError::RefusedByPolicy));
    until("the pin is dropped", || pinned().is_none()).await;
    // The pin does not come back while the port is left alone.
    let key = scene.servers.shared.finder.known(service(22).ip()).unwrap();
    meet(Arc::clone(&scene.servers.shared), service(22), key).await;
    assert_eq!(pinned(), None);
    assert!(scene.dial(22).await.is_none() && required().is_none());
}

#[tokio::test]
async fn a_port_that_was_used_over_a_session_is_required_from_then_on() {
    let scene = Scene::new(None, true).await;
    let (destination, origin) = (service(PORT).into(), Origin::default());
    scene.look_for(PORT);
    scene.hear(offer(server_key())).await;
    drop(scene.dial_soon(PORT).await.unwrap());
    until("the pin is confirmed", || {
        // Memory has the confirmation a moment later than the file.
        let pin = scene.servers.shared.pin(service(PORT));
        pin.is_some_and(|pin| pin.is_confirmed)
    })
    .await;
    let is_only_way = |way: Discovered<'_, _>| way.is_only_way;
    let servers = &scene.servers;
    assert_eq!(
        servers.dial(&destination, &origin).map(is_only_way),
        Some(true)
    );
    let required = servers.required(service(PORT), &destination, &origin);
    assert_eq!(required.map(is_only_way), Some(true));
}

#[tokio::test]
async fn a_session_with_one_key_is_no_way_to_another_and_does_not_confirm_its_pin() {
    let scene = Scene::new(None, false).await;
    let (at, shared, now) = (service(PORT), &scene.servers.shared, UnixTime::now());
    scene.look_for(PORT);
    scene.hear(offer(server_key())).await;
    let runs = || shared.pool.running((at, server_key())).is_some();
    until("a session runs", runs).await;
    // The pin ends before the session, and the port belongs to another server.
    let other = Identity::from_seed([8; 32]).public();
    shared.pins.drop_unconfirmed(at, server_key()).unwrap();
    let span = (now + Duration::from_secs(60), now);
    assert_eq!(shared.pins.keep(at, other, span).unwrap().key, other);
    assert!(runs() && shared.hopeful(at).is_none());
    assert!(scene.dial(PORT).await.is_none());
    assert!(scene.servers.bonded().is_empty() && scene.servers.found().is_empty());
    let [(key, _)] = &scene.servers.clients()[..] else {
        panic!("one session");
    };
    assert_eq!(*key, server_key());
    assert_eq!(scene.servers.opened(), 0);
    assert!(!shared.pin(at).unwrap().is_confirmed);
}

#[tokio::test]
async fn a_host_that_this_one_has_enrolled_with_is_left_alone() {
    let scene = Scene::new(None, true).await;
    let (at, now) = (SocketAddr::new(ENROLLED, PORT), UnixTime::now());
    let (servers, origin) = (&scene.servers, Origin::default());
    // This pin dates from before the enrolment.
    let span = (now + Duration::from_secs(60), now);
    servers.shared.pins.confirm(at, server_key(), span).unwrap();
    for at in [at, "[::ffff:127.0.0.2]:443".parse().unwrap()] {
        servers.look_for(at, &at.into(), &origin);
        assert!(servers.dial(&at.into(), &origin).is_none());
        assert!(servers.required(at, &at.into(), &origin).is_none());
    }
    assert!(
        servers
            .shared
            .servers
            .lock()
            .asked(Instant::now())
            .is_empty()
    );
    let to = at;
    take_in(&servers.shared, Heard { to, offer: None });
    assert_eq!(scene.problem(), None);
}

const PORT: u16 = 443;
/// An address where nothing listens.
const UNUSED: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 4)), 1);
/// The address of a host whose handshakes reveal nothing.
const SILENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 3));
/// The address of a host that this one has enrolled with.
const ENROLLED: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 2));
/// The time for which the server wants its key pinned, in seconds.
const WANTED: u32 = 20 * 86_400;
