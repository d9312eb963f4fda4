use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use hawser_keys::identity::{Identity, PublicKey};
use hawser_link::links::Link;
use hawser_policy::{Action, Avoid, LinkChoice, Mode, Rule, RuleSet};
use hawser_sched::connection::{ConnectionPolicy, GatewayUse};
use hawser_seal::server_handshake;
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::super::*;
use crate::bonded::SessionDialer;
use crate::connect::connect_tcp;
use crate::connection::testing::link;
use crate::near::Surroundings;
use crate::peer::{HeldPeers, PeerFinder, PeerSettings};
use crate::resolve::SystemResolver;

/// The response of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Opens,
    Refuses(DialError),
    /// It never answers.
    Silent,
    /// There is no session.
    Nothing,
}

/// Sessions whose streams are connections to the destination, counted.
#[derive(Clone)]
struct Fake {
    answer: Arc<Mutex<Answer>>,
    begun: Arc<AtomicUsize>,
    opened: Arc<AtomicUsize>,
}

impl Sessions for Fake {
    type Session = Self;

    fn way(&self, _: PublicKey, _: IpAddr) -> Option<Self> {
        self.begun.fetch_add(1, Ordering::Relaxed);
        let answer = *self.answer.lock();
        (answer != Answer::Nothing).then(|| self.clone())
    }
}

impl Dialer for Fake {
    type Stream = TcpStream;

    async fn dial(&self, destination: &Destination) -> Result<TcpStream, DialError> {
        let Host::Ip(address) = destination.host else {
            return Err(DialError::Internal);
        };
        let answer = *self.answer.lock();
        match answer {
            Answer::Opens | Answer::Nothing => {
                self.opened.fetch_add(1, Ordering::Relaxed);
                let to = SocketAddr::new(address, destination.port);
                TcpStream::connect(to)
                    .await
                    .map_err(|e| DialError::from_io(&e))
            }
            Answer::Refuses(error) => Err(error),
            Answer::Silent => std::future::pending().await,
        }
    }
}

impl SessionDialer for Fake {
    fn is_up(&self) -> bool {
        true
    }
}

/// Any link, with everything beyond it on this machine.
struct Anywhere;

impl Via for Anywhere {
    type Stream = TcpStream;

    async fn connect(&self, _: Option<&Link>, to: SocketAddr) -> io::Result<TcpStream> {
        TcpStream::connect(to).await
    }
}

impl Surroundings for Anywhere {
    async fn is_near(&self, _: IpAddr) -> bool {
        false
    }
}

struct Scene {
    dialer: ConnectionDialer<Anywhere, SystemResolver, Fake>,
    director: SharedDirector,
    sessions: Fake,
    rules: watch::Sender<Arc<RuleSet>>,
    origin: SocketAddr,
}

/// An origin server on this machine, and a peer beside it.
async fn scene(answer: Answer) -> Scene {
    scene_with(answer, false).await
}

/// As [`scene`], where the user allows plain TCP or not.
async fn scene_with(answer: Answer, may_fall_back: bool) -> Scene {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            kept.push(stream);
        }
    });
    let peer = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = peer.local_addr().unwrap().port();
    let me = Identity::from_seed([7; 32]);
    let known = vec![me.public()];
    let enrolled = known.clone();
    let held = HeldPeers::new(move || enrolled.clone(), may_fall_back);
    tokio::spawn(async move {
        while let Ok((stream, _)) = peer.accept().await {
            let _ = server_handshake(stream, &[], &me, Arc::new(|_| true)).await;
        }
    });
    let finder = PeerFinder::start(
        connect_tcp,
        move || known.clone(),
        PeerSettings::at_port(port),
    );
    let sessions = Fake {
        answer: Arc::new(Mutex::new(answer)),
        begun: Arc::default(),
        opened: Arc::default(),
    };
    let rules = watch::Sender::new(Arc::default());
    let director = SharedDirector::new(ConnectionPolicy::Auto, Vec::new());
    director.set_links(&[Link::clone(&link("a"))]);
    let options = ConnectOptions::default();
    let dialer = ConnectionDialer::with(director.clone(), Anywhere, SystemResolver::new(), options);
    let peers = Peers::new(finder, sessions.clone(), rules.subscribe(), held);
    Scene {
        dialer: ConnectionDialer {
            peers: Some(peers),
            ..dialer
        },
        director,
        sessions,
        rules,
        origin,
    }
}

impl Scene {
    fn set_rules(&self, rules: RuleSet) {
        let rules = Arc::new(rules);
        self.rules.send_replace(Arc::clone(&rules));
        self.director.set_rules(rules);
    }

    /// Connects, and returns whether the connection is bonded.
    async fn is_bonded(&self, destination: &str) -> bool {
        let destination = destination.parse().unwrap();
        match self.dialer.dial(&destination).await.unwrap() {
            EitherStream::Direct(_) => false,
            EitherStream::Bonded(_) => true,
        }
    }

    /// Waits until the peer is known and a session with it was begun.
    async fn found(&self) {
        let mut found = self.dialer.peers.as_ref().unwrap().finder().found();
        found.wait_for(|found| !found.is_empty()).await.unwrap();
        while self.sessions.begun.load(Ordering::Relaxed) == 0 {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn the_first_connection_is_direct_and_later_ones_are_bonded() {
    let scene = scene(Answer::Opens).await;
    let origin = scene.origin.to_string();
    let named = format!("localhost:{}", scene.origin.port());
    assert!(!scene.is_bonded(&named).await);
    scene.found().await;
    assert!(scene.is_bonded(&origin).await);
    // The address of the name is known now.
    assert!(scene.is_bonded(&named).await);
}

/// Checks that a connection goes over a link because of `answer`, and the next over the session.
async fn is_used_again_after(answer: Answer) {
    let scene = scene(answer).await;
    let origin = scene.origin.to_string();
    assert!(!scene.is_bonded(&origin).await);
    scene.found().await;
    assert!(!scene.is_bonded(&origin).await);
    *scene.sessions.answer.lock() = Answer::Opens;
    assert!(scene.is_bonded(&origin).await);
}

#[tokio::test]
async fn a_peer_without_a_session_keeps_no_connection_waiting() {
    is_used_again_after(Answer::Nothing).await;
}

#[tokio::test]
async fn what_fails_over_a_session_goes_over_a_link_and_the_peer_rests() {
    for answer in [Answer::Refuses(DialError::RefusedByPolicy), Answer::Silent] {
        let scene = scene(answer).await;
        let origin = scene.origin.to_string();
        assert!(!scene.is_bonded(&origin).await);
        scene.found().await;
        assert!(!scene.is_bonded(&origin).await, "{answer:?}");
        let before = scene.sessions.begun.load(Ordering::Relaxed);
        assert!(!scene.is_bonded(&origin).await, "{answer:?}");
        assert_eq!(scene.sessions.begun.load(Ordering::Relaxed), before);
    }
}

/// Returns a scene whose peer has carried a connection, and answers like this now.
async fn carried_and_then(answer: Answer, may_fall_back: bool) -> Scene {
    let scene = scene_with(Answer::Opens, may_fall_back).await;
    let origin = scene.origin.to_string();
    assert!(!scene.is_bonded(&origin).await);
    scene.found().await;
    assert!(scene.is_bonded(&origin).await);
    *scene.sessions.answer.lock() = answer;
    // Waiting in vain takes no real time.
    tokio::time::pause();
    scene
}

#[tokio::test]
async fn where_a_peer_carried_connections_its_silence_is_no_reason_for_plain_tcp() {
    let no_session = Answer::Refuses(DialError::GatewayUnavailable);
    for answer in [Answer::Silent, Answer::Nothing, no_session] {
        let scene = carried_and_then(answer, false).await;
        let named = format!("localhost:{}", scene.origin.port());
        for destination in [scene.origin.to_string(), named] {
            let dialed = scene.dialer.dial(&destination.parse().unwrap()).await;
            let refused = match answer {
                Answer::Nothing => DialError::LimitReached,
                _ => DialError::GatewayUnavailable,
            };
            assert_eq!(dialed.err(), Some(refused), "{answer:?} {destination}");
        }
        // The same peer is used when it answers again.
        *scene.sessions.answer.lock() = Answer::Opens;
        assert!(scene.is_bonded(&scene.origin.to_string()).await);
        tokio::time::resume();
    }
}

#[tokio::test]
async fn while_a_peer_is_silent_one_connection_waits_for_it() {
    for may_fall_back in [false, true] {
        let scene = carried_and_then(Answer::Silent, may_fall_back).await;
        let destination = scene.origin.to_string().parse().unwrap();
        // The outcome of the first dial does not matter: it reveals the silence.
        let _ = scene.dialer.dial(&destination).await;
        let mut waiting = Box::pin(scene.dialer.dial(&destination));
        assert!(poll_once(&mut waiting).await.is_none());
        for _ in 0..3 {
            let other = scene.dialer.dial(&destination).await;
            if may_fall_back {
                assert!(matches!(other, Ok(EitherStream::Direct(_))))
            } else {
                assert_eq!(other.err(), Some(DialError::GatewayUnavailable))
            }
            let waits = poll_once(&mut waiting).await.is_none();
            assert!(waits, "the one that waits was done before");
        }
        // The peer answers again: new connections notice it first.
        *scene.sessions.answer.lock() = Answer::Opens;
        assert!(scene.is_bonded(&scene.origin.to_string()).await);
        drop(waiting);
        tokio::time::resume();
    }
}

async fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    std::future::poll_fn(|cx| match std::pin::Pin::new(&mut *future).poll(cx) {
        std::task::Poll::Ready(output) => std::task::Poll::Ready(Some(output)),
        std::task::Poll::Pending => std::task::Poll::Ready(None),
    })
    .await
}

#[tokio::test]
async fn plain_tcp_is_for_who_allows_it_and_for_what_the_peer_itself_does_not_carry() {
    let silent = carried_and_then(Answer::Silent, true).await;
    assert!(!silent.is_bonded(&silent.origin.to_string()).await);
    tokio::time::resume();
    let refused = Answer::Refuses(DialError::RefusedByPolicy);
    let refusing = carried_and_then(refused, false).await;
    assert!(!refusing.is_bonded(&refusing.origin.to_string()).await);
    tokio::time::resume();
    let nothing = Answer::Refuses(DialError::ConnectionRefused);
    let listening = carried_and_then(nothing, false).await;
    let destination = listening.origin.to_string().parse().unwrap();
    let dialed = listening.dialer.dial(&destination);
    assert_eq!(dialed.await.err(), Some(DialError::ConnectionRefused));
}

#[tokio::test]
async fn a_port_where_nothing_listens_does_not_speak_against_the_peer() {
    is_used_again_after(Answer::Refuses(DialError::ConnectionRefused)).await;
}

#[tokio::test]
async fn while_everything_is_for_a_gateway_no_peer_is_looked_for_or_used() {
    let scene = scene(Answer::Opens).await;
    let director = &scene.director;
    let origin = scene.origin.to_string();
    director.set_gateway(GatewayUse::Always);
    assert!(!scene.is_bonded(&origin).await);
    director.set_gateway(GatewayUse::Auto);
    assert!(!scene.is_bonded(&origin).await);
    scene.found().await;
    assert!(scene.is_bonded(&origin).await);
    director.set_gateway(GatewayUse::Always);
    assert!(!scene.is_bonded(&origin).await);
}

#[tokio::test]
async fn rules_keep_a_connection_off_sessions() {
    let scene = scene(Answer::Opens).await;
    let origin = scene.origin.to_string();
    assert!(!scene.is_bonded(&origin).await);
    scene.found().await;
    let mode = Action {
        mode: Some(Mode::Direct),
        ..Action::default()
    };
    let links = Action {
        links: Some(LinkChoice::Except(vec!["wwan0".to_owned()])),
        mode: Some(Mode::Bonded),
        ..Action::default()
    };
    let avoid = Action {
        avoid: Some(vec![Avoid::Metered]),
        ..Action::default()
    };
    for then in [mode, links, avoid] {
        let rule = Rule {
            then,
            ..Rule::default()
        };
        scene.set_rules(RuleSet::new([rule]));
        assert!(!scene.is_bonded(&origin).await);
    }
    assert_eq!(scene.sessions.opened.load(Ordering::Relaxed), 0);
    scene.set_rules(RuleSet::default());
    assert!(scene.is_bonded(&origin).await);
}
