mod peers;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use hawser_director::SessionView;
use hawser_keys::identity::PublicKey;
use hawser_link::links::Link;
use hawser_policy::{Action, Condition, LinkChoice, Mode, Rule, RuleSet};
use hawser_sched::connection::{ConnectionPolicy, GatewayUse};
use hawser_types::{ByteCount, LinkIndex};
use parking_lot::Mutex;
use tokio::net::TcpStream;

use super::*;
use crate::bonded::SessionDialer;
use crate::connection::testing::link;
use crate::destination::HostName;
use crate::near::Surroundings;
use crate::near::tests::Home;
use crate::peer::BondAnswer;

/// A fake way to a running server.
#[derive(Clone)]
struct Fake {
    server: SocketAddr,
    dialed: Arc<AtomicUsize>,
    /// Time that a dial takes, in milliseconds.
    takes: Arc<AtomicU64>,
    fails: Arc<Mutex<Option<DialError>>>,
    is_up: Arc<AtomicBool>,
}

impl Fake {
    fn new(server: SocketAddr) -> Self {
        Self {
            server,
            dialed: Arc::default(),
            takes: Arc::default(),
            fails: Arc::default(),
            is_up: Arc::new(AtomicBool::new(true)),
        }
    }

    fn dialed(&self) -> usize {
        self.dialed.swap(0, Ordering::Relaxed)
    }

    async fn connect(&self) -> Result<TcpStream, DialError> {
        self.dialed.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(self.takes.load(Ordering::Relaxed))).await;
        let fails = *self.fails.lock();
        match fails {
            Some(error) => Err(error),
            None => TcpStream::connect(self.server)
                .await
                .map_err(|error| DialError::from_io(&error)),
        }
    }
}

/// Acts as a gateway.
impl Dialer for Fake {
    type Stream = TcpStream;

    async fn dial(&self, _: &Destination) -> Result<TcpStream, DialError> {
        self.connect().await
    }
}

impl SessionDialer for Fake {
    fn is_up(&self) -> bool {
        self.is_up.load(Ordering::Relaxed)
    }
}

/// Acts as all links.
impl Via for Fake {
    type Stream = TcpStream;

    async fn connect(&self, _: Option<&Link>, _: SocketAddr) -> io::Result<TcpStream> {
        let connected = Self::connect(self).await;
        connected.map_err(|_| io::ErrorKind::NetworkUnreachable.into())
    }
}

impl Surroundings for Fake {
    async fn is_near(&self, address: IpAddr) -> bool {
        Home.is_near(address).await
    }
}

/// Resolves all names to the same address.
struct Named(Arc<Mutex<IpAddr>>);

impl Resolve for Named {
    async fn resolve(&self, _: &HostName) -> Result<Vec<IpAddr>, DialError> {
        Ok(vec![*self.0.lock()])
    }
}

/// No destination has a peer.
impl Sessions for Fake {
    type Session = Self;

    fn way(&self, _: PublicKey, _: IpAddr) -> Option<Self> {
        None
    }
}

struct Scene {
    direct: Fake,
    gateway: Fake,
    director: SharedDirector,
    dialer: ConnectionDialer<Fake, Named, Fake>,
    /// The address that names lead to.
    named: Arc<Mutex<IpAddr>>,
}

async fn scene(usage: GatewayUse) -> Scene {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            kept.push(stream);
        }
    });
    let (direct, gateway) = (Fake::new(server), Fake::new(server));
    let director = SharedDirector::new(ConnectionPolicy::Auto, Vec::new());
    director.set_gateway(usage);
    director.set_session(Some(session()));
    let named = Arc::new(Mutex::new(OUT_THERE.parse().unwrap()));
    let (resolver, options) = (Named(Arc::clone(&named)), ConnectOptions::default());
    let dialer = ConnectionDialer::with(director.clone(), direct.clone(), resolver, options);
    let dialer = ConnectionDialer {
        gateway: Some(gateway.clone()),
        ..dialer
    };
    Scene {
        direct,
        gateway,
        director,
        dialer,
        named,
    }
}

fn session() -> SessionView {
    SessionView {
        links: vec![(LinkIndex::new(1), Duration::from_millis(30))],
        moved: [ByteCount::ZERO; 2],
    }
}

impl Scene {
    /// Returns how often each way was dialed for one connection.
    async fn dial(&self, to: &str) -> (usize, usize) {
        let host = match to.parse::<IpAddr>() {
            Ok(address) => Host::Ip(address),
            Err(_) => Host::Name(to.parse().unwrap()),
        };
        let dialed = self.dialer.dial(&Destination::new(host, 443)).await;
        assert!(dialed.is_ok(), "{to}: {:?}", dialed.err());
        (self.direct.dialed(), self.gateway.dialed())
    }

    /// Dials for an application on another machine.
    async fn dial_from_elsewhere(&self, to: &str) -> Result<(), DialError> {
        let origin = Origin {
            is_elsewhere: true,
            ..Origin::default()
        };
        let destination = Destination::parse(to, Some(443));
        let destination =
            destination.unwrap_or_else(|_| Destination::new(Host::Ip(to.parse().unwrap()), 443));
        self.dialer.dial_for(&destination, &origin).await.map(drop)
    }

    fn rule(&self, then: Action) {
        let rule = Rule {
            then,
            ..Rule::default()
        };
        self.director.set_rules(Arc::new(RuleSet::new([rule])));
    }

    fn mode(&self, mode: Mode) {
        self.rule(Action {
            mode: Some(mode),
            ..Action::default()
        });
    }
}

#[tokio::test]
async fn what_a_program_says_early_leaves_only_where_no_other_way_is_tried() {
    for (usage, to, may_leave) in [
        (GatewayUse::Always, OUT_THERE, true),
        (GatewayUse::Always, "10.0.0.7", false),
        (GatewayUse::Auto, OUT_THERE, false),
        (GatewayUse::Never, OUT_THERE, false),
    ] {
        let scene = scene(usage).await;
        let early = EarlyData::default();
        early.put(b"hello");
        let origin = Origin {
            early: Some(early.clone()),
            ..Origin::default()
        };
        let to = Destination::new(Host::Ip(to.parse().unwrap()), 443);
        assert!(scene.dialer.dial_for(&to, &origin).await.is_ok());
        assert_eq!(
            early.next().now_or_never().is_some(),
            may_leave,
            "{usage:?} {to}"
        );
    }
}

/// The book of names, or the vouchers, for `bob.example`: its only route fails.
struct OnlyRoute {
    asked: Arc<AtomicUsize>,
    error: DialError,
}

impl OnlyRoute {
    fn new(asked: &Arc<AtomicUsize>, error: DialError) -> Arc<Self> {
        let asked = Arc::clone(asked);
        Arc::new(Self { asked, error })
    }

    fn leads_to(&self, host: &Host) -> bool {
        self.asked.fetch_add(1, Ordering::Relaxed);
        matches!(host, Host::Name(name) if name.as_str() == "bob.example")
    }
}

impl DialByName<TcpStream> for OnlyRoute {
    fn dial<'a>(
        &'a self,
        host: &Host,
        _: u16,
        _: &'a Origin,
    ) -> Option<BoxFuture<'a, Result<TcpStream, DialError>>> {
        let failed = async { Err(self.error) };
        self.leads_to(host).then(|| failed.boxed())
    }
}

impl DialVouched<TcpStream> for OnlyRoute {
    fn judge<'a>(
        &'a self,
        destination: &'a Destination,
        _: &'a Origin,
    ) -> Option<BoxFuture<'a, Option<VouchedWay<'a, TcpStream>>>> {
        let failed = async { Err(self.error) };
        let way = async { Some(failed.boxed()) };
        self.leads_to(&destination.host).then(|| way.boxed())
    }
}

/// Dials a host, and returns the error, whether early data may leave, and how often links and the
/// gateway were dialed.
async fn dial_only(
    scene: Scene,
    host: &str,
    give: impl FnOnce(&mut ConnectionDialer<Fake, Named, Fake>),
) -> (Option<DialError>, bool, (usize, usize)) {
    let mut dialer = scene.dialer;
    give(&mut dialer);
    let early = EarlyData::default();
    early.put(b"hello");
    let origin = Origin {
        early: Some(early.clone()),
        ..Origin::default()
    };
    let to = Destination::new(Host::Name(host.parse().unwrap()), 443);
    let error = dialer.dial_for(&to, &origin).await.err();
    let may_leave = early.next().now_or_never().is_some();
    let dialed = (scene.direct.dialed(), scene.gateway.dialed());
    (error, may_leave, dialed)
}

#[tokio::test]
async fn a_named_host_that_can_not_be_reached_is_reached_by_no_other_route() {
    let (asked, unreachable) = (Arc::default(), DialError::HostUnreachable);
    let named = OnlyRoute::new(&asked, unreachable);
    for usage in GatewayUse::ALL {
        let scene = scene(usage).await;
        scene.mode(Mode::Direct);
        let dialed = dial_only(scene, "bob.example", |it| it.named = Some(named.clone())).await;
        assert_eq!(dialed, (Some(unreachable), true, (0, 0)), "{usage:?}");
    }
    let scene = scene(GatewayUse::Never).await;
    let dialed = dial_only(scene, "www.example", |it| it.named = Some(named.clone())).await;
    assert_eq!(dialed, (None, false, STRAIGHT));
}

#[tokio::test]
async fn a_vouched_name_that_is_refused_goes_by_no_other_route_unless_the_user_says_so() {
    let (asked, refused) = (Arc::default(), DialError::RefusedByPolicy);
    let vouched = OnlyRoute::new(&asked, refused);
    for usage in [GatewayUse::Auto, GatewayUse::Never] {
        let scene = scene(usage).await;
        let dialed = dial_only(scene, "bob.example", |it| {
            it.vouched = Some(vouched.clone())
        })
        .await;
        assert_eq!(dialed, (Some(refused), true, (0, 0)), "{usage:?}");
    }
    assert_eq!(asked.swap(0, Ordering::Relaxed), 2);
    let all = scene(GatewayUse::Always).await;
    let dialed = dial_only(all, "bob.example", |it| it.vouched = Some(vouched.clone())).await;
    assert_eq!(dialed, (None, true, BY_GATEWAY));
    let direct = scene(GatewayUse::Never).await;
    direct.mode(Mode::Direct);
    let dialed = dial_only(direct, "bob.example", |it| {
        it.vouched = Some(vouched.clone())
    })
    .await;
    assert_eq!(dialed, (None, false, STRAIGHT));
    assert_eq!(asked.load(Ordering::Relaxed), 0, "not even asked");
}

/// A discovered server at [`OUT_THERE`]: its session fails.
struct FoundServer {
    is_only_way: bool,
}

impl DialDiscovered<TcpStream> for FoundServer {
    fn dial<'a>(
        &'a self,
        destination: &Destination,
        _: &'a Origin,
    ) -> Option<Discovered<'a, TcpStream>> {
        let at = SocketAddr::new(OUT_THERE.parse().unwrap(), destination.port);
        let is_there = matches!(destination.host, Host::Ip(address) if address == at.ip());
        is_there.then(|| Discovered {
            dialing: async { Err(DialError::HostUnreachable) }.boxed(),
            at,
            head_start: Duration::from_millis(250),
            is_only_way: self.is_only_way,
        })
    }

    fn look_for(&self, _: SocketAddr, _: &Destination, _: &Origin) {}

    fn required<'a>(
        &'a self,
        _: SocketAddr,
        _: &Destination,
        _: &'a Origin,
    ) -> Option<Discovered<'a, TcpStream>> {
        None
    }

    fn asks_bond(&self, _: SocketAddr, _: &Destination, _: &Origin) -> bool {
        false
    }

    fn bond_answer<'a>(
        &'a self,
        _: BorrowedFd<'_>,
        _: &Destination,
        _: &'a Origin,
    ) -> BondAnswer<'a, TcpStream> {
        BondAnswer::None
    }

    fn note_overtaken(&self, _: SocketAddr) {}
}

#[tokio::test]
async fn a_discovered_server_is_dialed_first_and_alone_where_its_session_is_required() {
    let dial = async |usage, to: &str, is_only_way| {
        let mut scene = scene(usage).await;
        scene.dialer.discovered = Some(Arc::new(FoundServer { is_only_way }));
        let to = Destination::new(Host::Ip(to.parse().unwrap()), 443);
        let dialed = scene.dialer.dial(&to).await;
        (
            dialed.err(),
            (scene.direct.dialed(), scene.gateway.dialed()),
        )
    };
    let (never, elsewhere) = (GatewayUse::Never, "198.51.100.2");
    let unreachable = Some(DialError::HostUnreachable);
    assert_eq!(dial(never, OUT_THERE, true).await, (unreachable, (0, 0)));
    assert_eq!(dial(never, OUT_THERE, false).await, (None, STRAIGHT));
    assert_eq!(dial(never, elsewhere, true).await, (None, STRAIGHT));
    // Everything goes through the gateway: the server is not even asked.
    let all = dial(GatewayUse::Always, OUT_THERE, true).await;
    assert_eq!(all, (None, BY_GATEWAY));
}

const STRAIGHT: (usize, usize) = (1, 0);
const BY_GATEWAY: (usize, usize) = (0, 1);
const OUT_THERE: &str = "198.51.100.1";

#[tokio::test]
async fn a_gateway_for_everything_gets_all_but_what_rules_say_and_what_is_near() {
    let scene = scene(GatewayUse::Always).await;
    for (to, expected) in [
        (OUT_THERE, BY_GATEWAY),
        ("www.example.org", BY_GATEWAY),
        ("10.0.0.7", STRAIGHT),
        // The gateway's own loopback, if it lets clients go there.
        ("127.0.0.1", BY_GATEWAY),
        ("localhost", BY_GATEWAY),
    ] {
        assert_eq!(scene.dial(to).await, expected, "{to}");
    }
    scene.mode(Mode::Direct);
    assert_eq!(scene.dial(OUT_THERE).await, STRAIGHT);
    scene.mode(Mode::Bonded);
    assert_eq!(scene.dial("10.0.0.7").await, BY_GATEWAY);
    let links = ["a", "b"].map(|name| Link::clone(&link(name)));
    scene.director.set_links(&links);
    // A session goes over every link.
    for links in [
        LinkChoice::Only(vec!["a".to_owned()]),
        LinkChoice::Except(vec!["a".to_owned()]),
    ] {
        scene.rule(Action {
            links: Some(links),
            mode: Some(Mode::Bonded),
            ..Action::default()
        });
        assert_eq!(scene.dial(OUT_THERE).await, STRAIGHT);
    }
    let report = scene.director.report();
    assert_eq!(report.gateway.unwrap().opened, 5);
}

#[tokio::test]
async fn a_gateway_for_everything_is_waited_for_and_its_failures_count() {
    let scene = scene(GatewayUse::Always).await;
    scene.director.set_session(None);
    scene.gateway.is_up.store(false, Ordering::Relaxed);
    scene.gateway.takes.store(700, Ordering::Relaxed);
    assert_eq!(scene.dial(OUT_THERE).await, BY_GATEWAY);
    *scene.gateway.fails.lock() = Some(DialError::GatewayUnavailable);
    let to = Destination::new(Host::Ip(OUT_THERE.parse().unwrap()), 443);
    let failed = scene.dialer.dial(&to).await.err();
    assert_eq!(failed, Some(DialError::GatewayUnavailable));
    assert_eq!(scene.direct.dialed(), 0);
}

#[tokio::test]
async fn a_gateway_for_nothing_gets_what_rules_give_it_while_it_is_there() {
    let scene = scene(GatewayUse::Never).await;
    for to in [OUT_THERE, "127.0.0.1", "www.example.org"] {
        assert_eq!(scene.dial(to).await, STRAIGHT, "{to}");
    }
    scene.mode(Mode::Bonded);
    assert_eq!(scene.dial(OUT_THERE).await, BY_GATEWAY);
    scene.director.set_session(None);
    assert_eq!(scene.dial(OUT_THERE).await, STRAIGHT);
}

#[tokio::test]
async fn a_gateway_that_is_used_otherwise_keeps_what_is_known_of_it() {
    let scene = scene(GatewayUse::Always).await;
    assert_eq!(scene.dial(OUT_THERE).await, BY_GATEWAY);
    scene.director.set_gateway(GatewayUse::Never);
    for to in [OUT_THERE, "127.0.0.1"] {
        assert_eq!(scene.dial(to).await, STRAIGHT, "{to}");
    }
    scene.director.set_gateway(GatewayUse::Always);
    assert_eq!(scene.dial("127.0.0.1").await, BY_GATEWAY);
    let gateway = scene.director.report().gateway.unwrap();
    assert!(gateway.is_up);
    assert_eq!(gateway.opened, 2);
}

#[tokio::test]
async fn where_it_is_weighed_a_connection_never_depends_on_the_gateway() {
    // No link leads anywhere here, so the gateway is always better.
    let scene = scene(GatewayUse::Auto).await;
    assert_eq!(scene.dial(OUT_THERE).await, BY_GATEWAY);
    *scene.gateway.fails.lock() = Some(DialError::RefusedByPolicy);
    assert_eq!(scene.dial(OUT_THERE).await, (1, 1));
    // A silent gateway has a head start.
    *scene.gateway.fails.lock() = None;
    scene.gateway.takes.store(60_000, Ordering::Relaxed);
    assert_eq!(scene.dial(OUT_THERE).await, (1, 1));
    // The session has ended, or is about to be known to have ended.
    scene.gateway.is_up.store(false, Ordering::Relaxed);
    assert_eq!(scene.dial(OUT_THERE).await, STRAIGHT);
    scene.director.set_session(None);
    assert_eq!(scene.dial(OUT_THERE).await, STRAIGHT);
}

#[tokio::test]
async fn a_gateway_that_a_link_has_overtaken_is_known_to_be_slow() {
    let scene = scene(GatewayUse::Auto).await;
    assert_eq!(scene.dial(OUT_THERE).await, BY_GATEWAY);
    // With a stream on it, the gateway's latency is not taken for that of an empty one.
    let to: Destination = "198.51.100.2:443".parse().unwrap();
    let decision = scene.director.decide(&Question {
        request: &Origin::default().towards(&to),
        is_near: Some(false),
        is_resolved: true,
        ends: FarEnds::NONE,
    });
    let Route::Gateway(decision) = decision else {
        panic!("{decision:?}");
    };
    let _open = scene.director.open_by_gateway(&decision);
    let latency = || scene.director.report().gateway.unwrap().latency;
    let before = latency();
    scene.gateway.takes.store(60_000, Ordering::Relaxed);
    assert_eq!(scene.dial(OUT_THERE).await, (1, 1));
    assert!(latency() > before, "{before:?} {:?}", latency());
}

/// The name does not match the rule, but its address does.
#[tokio::test]
async fn a_name_goes_by_the_gateway_where_a_rule_gives_its_address_away() {
    let scene = scene(GatewayUse::Never).await;
    assert_eq!(scene.dial("www.example.org").await, STRAIGHT);
    let rule = Rule {
        when: Condition {
            address: vec![format!("{OUT_THERE}/32").parse().unwrap()],
            ..Condition::default()
        },
        then: Action {
            mode: Some(Mode::Bonded),
            ..Action::default()
        },
        ..Rule::default()
    };
    scene.director.set_rules(Arc::new(RuleSet::new([rule])));
    assert_eq!(scene.dial("www.example.org").await, BY_GATEWAY);
}

/// The name does not reveal where it leads, but its address does.
#[tokio::test]
async fn a_name_that_leads_nearby_goes_straight_as_its_address_does() {
    let rule = |when, mode| Rule {
        when,
        then: Action {
            mode: Some(mode),
            ..Action::default()
        },
        ..Rule::default()
    };
    let nearby = Condition {
        address: vec![
            "10.0.0.0/8".parse().unwrap(),
            "127.0.0.0/8".parse().unwrap(),
        ],
        ..Condition::default()
    };
    let anywhere = Condition::default();
    let rules = [rule(nearby, Mode::Auto), rule(anywhere, Mode::Direct)];
    let scene = scene(GatewayUse::Always).await;
    scene.director.set_rules(Arc::new(RuleSet::new(rules)));
    for (name, leads) in [
        ("www.example.org", "10.0.0.7"),
        // The gateway would not find this machine by this name.
        ("www.localhost", "127.0.0.1"),
        ("www.example.org", OUT_THERE),
    ] {
        *scene.named.lock() = leads.parse().unwrap();
        assert_eq!(scene.dial(name).await, STRAIGHT, "{leads}");
    }
    assert_eq!(scene.dial("10.0.0.7").await, STRAIGHT);
    assert_eq!(scene.dial("127.0.0.1").await, BY_GATEWAY);
}

/// A page makes a browser ask for a name of the page's owner, which leads here a moment later.
#[tokio::test]
async fn a_name_of_the_internet_opens_nothing_to_this_machine() {
    for usage in [GatewayUse::Auto, GatewayUse::Never] {
        let scene = scene(usage).await;
        scene.director.set_session(None);
        for leads in [
            "127.0.0.1",
            "::1",
            "::ffff:127.0.0.1",
            "0.0.0.0",
            "169.254.169.254",
        ] {
            *scene.named.lock() = leads.parse().unwrap();
            let dialed = scene
                .dialer
                .dial(&"rebind.example:80".parse().unwrap())
                .await;
            assert_eq!(dialed.err(), Some(DialError::RefusedByPolicy), "{leads}");
            assert_eq!(scene.direct.dialed(), 0, "{leads}");
        }
        // An application may name this machine itself.
        *scene.named.lock() = "127.0.0.1".parse().unwrap();
        for own in ["127.0.0.1:80", "localhost:80"] {
            assert!(
                scene.dialer.dial(&own.parse().unwrap()).await.is_ok(),
                "{own}"
            );
            assert_eq!(scene.direct.dialed(), 1, "{own}");
        }
    }
}

#[tokio::test]
async fn an_asker_elsewhere_opens_nothing_to_this_machine_whatever_way_is_chosen() {
    for usage in [GatewayUse::Always, GatewayUse::Auto, GatewayUse::Never] {
        let scene = scene(usage).await;
        for to in [
            "127.0.0.1",
            "::1",
            "::ffff:127.0.0.1",
            "0.0.0.0",
            "localhost",
            "a.example",
        ] {
            for named in ["127.0.0.1", "::1", "169.254.1.1"] {
                *scene.named.lock() = named.parse().unwrap();
                let _ = scene.dial_from_elsewhere(to).await;
                let straight = scene.direct.dialed();
                assert_eq!(straight, 0, "{to} as {named} with {}", usage.name());
            }
        }
        *scene.named.lock() = "10.0.0.7".parse().unwrap();
        assert!(scene.dial_from_elsewhere("10.0.0.7").await.is_ok());
        assert_eq!(scene.direct.dialed(), 1, "{}", usage.name());
    }
}
