use std::future::poll_fn;
use std::time::Duration;

use hawser_director::{LeftTo, SessionView};
use hawser_policy::{Action, Condition, Mode, Rule, RuleSet};
use hawser_sched::connection::{Class, ConnectionPolicy, GatewayUse};
use hawser_types::{ByteCount, LinkIndex};
use parking_lot::Mutex;

use super::*;
use crate::near::tests::Home;

/// Ports that take and record every datagram.
#[derive(Clone, Default)]
struct Fake {
    sent: Arc<Mutex<Vec<Sent>>>,
    /// Destinations of calls.
    calls: Arc<Mutex<Vec<String>>>,
    fails: Option<DialError>,
}

impl DatagramPorts for Fake {
    fn open(&self, _asker: Origin) -> Result<Box<dyn DatagramPort>, DialError> {
        match self.fails {
            Some(error) => Err(error),
            None => Ok(Box::new(self.clone())),
        }
    }
}

impl DatagramPort for Fake {
    fn send(&mut self, destination: &Destination, payload: &[u8]) -> bool {
        let sent = (destination.to_string(), payload.to_vec());
        self.sent.lock().push(sent);
        true
    }

    fn set_call(&mut self, destination: &Destination, is_call: bool) {
        if is_call {
            self.calls.lock().push(destination.to_string());
        }
    }

    fn poll_receive(&mut self, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<SocketAddr> {
        Poll::Pending
    }
}

/// Destination and payload.
type Sent = (String, Vec<u8>);

struct Scene {
    direct: Fake,
    gateway: Fake,
    director: SharedDirector,
    port: Box<dyn DatagramPort>,
}

fn ports(usage: GatewayUse, gateway: &Fake) -> (Fake, SharedDirector, ChoicePorts<Home>) {
    let director = SharedDirector::new(ConnectionPolicy::Auto, Vec::new());
    director.set_gateway(usage);
    director.set_session(Some(session()));
    let direct = Fake::default();
    let (d, g) = (direct.clone(), gateway.clone());
    let ports = ChoicePorts::in_surroundings(d, g, director.clone(), Home);
    (direct, director, ports)
}

fn session() -> SessionView {
    SessionView {
        links: vec![(LinkIndex::new(1), Duration::from_millis(30))],
        moved: [ByteCount::ZERO; 2],
    }
}

/// A scene without any link, so that a gateway always wins the comparison.
fn scene(usage: GatewayUse) -> Scene {
    let gateway = Fake::default();
    let (direct, director, ports) = ports(usage, &gateway);
    Scene {
        direct,
        gateway,
        director,
        port: ports.open(Origin::default()).unwrap(),
    }
}

impl Scene {
    /// Returns the way that a datagram takes.
    async fn way(&mut self, to: &str) -> By {
        let to = to.parse().unwrap();
        assert!(self.port.send(&to, b"x"));
        self.turn().await;
        let sent = |fake: &Fake| std::mem::take(&mut *fake.sent.lock()).len();
        match (sent(&self.direct), sent(&self.gateway)) {
            (1, 0) => By::Link,
            (0, 1) => By::Gateway,
            other => panic!("{to}: {other:?}"),
        }
    }

    /// Polls the port, which completes the work of sending.
    async fn turn(&mut self) {
        let mut room = [0; 64];
        poll_fn(|cx| {
            let mut buffer = ReadBuf::new(&mut room);
            assert!(self.port.poll_receive(cx, &mut buffer).is_pending());
            Poll::Ready(())
        })
        .await;
    }

    fn mode(&self, mode: Mode) {
        let rule = Rule {
            then: Action {
                mode: Some(mode),
                ..Action::default()
            },
            ..Rule::default()
        };
        self.director.set_rules(Arc::new(RuleSet::new([rule])));
    }
}

const OUT_THERE: &str = "198.51.100.1:443";

#[tokio::test(start_paused = true)]
async fn what_is_near_goes_straight_as_connections_do() {
    for usage in GatewayUse::ALL {
        let mut scene = scene(usage);
        let own_loopback = match usage {
            // The gateway's own loopback, if the gateway allows that.
            GatewayUse::Always => By::Gateway,
            GatewayUse::Auto | GatewayUse::Never => By::Link,
        };
        let elsewhere = match usage {
            GatewayUse::Always | GatewayUse::Auto => By::Gateway,
            GatewayUse::Never => By::Link,
        };
        for (to, expected) in [
            (OUT_THERE, elsewhere),
            ("www.example.org:443", elsewhere),
            // Neither on the internet nor near: it may be behind the gateway.
            ("192.168.1.1:53000", elsewhere),
            ("10.0.0.7:443", By::Link),
            ("127.0.0.1:443", own_loopback),
            ("localhost:443", own_loopback),
        ] {
            assert_eq!(scene.way(to).await, expected, "{usage} {to}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_flow_keeps_its_way_until_it_was_still_for_two_minutes() {
    let mut scene = scene(GatewayUse::Always);
    assert_eq!(scene.way(OUT_THERE).await, By::Gateway);
    scene.mode(Mode::Direct);
    for _ in 0..3 {
        tokio::time::advance(Duration::from_secs(100)).await;
        assert_eq!(scene.way(OUT_THERE).await, By::Gateway);
    }
    assert_eq!(scene.way("198.51.100.1:444").await, By::Link);
    tokio::time::advance(Duration::from_secs(120)).await;
    assert_eq!(scene.way(OUT_THERE).await, By::Link);
}

#[tokio::test(start_paused = true)]
async fn a_flow_whose_session_is_gone_goes_straight_unless_the_gateway_is_waited_for() {
    for (usage, expected) in [
        (GatewayUse::Auto, By::Link),
        (GatewayUse::Always, By::Gateway),
    ] {
        let mut scene = scene(usage);
        assert_eq!(scene.way(OUT_THERE).await, By::Gateway);
        scene.director.set_session(None);
        assert_eq!(scene.way(OUT_THERE).await, expected);
        // The flow keeps its new way.
        scene.director.set_session(Some(session()));
        assert_eq!(scene.way(OUT_THERE).await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_gateway_without_datagrams_is_said_to_be_one_or_left_aside() {
    let gateway = Fake {
        fails: Some(DialError::GatewayUnavailable),
        ..Fake::default()
    };
    let (.., always) = ports(GatewayUse::Always, &gateway);
    let refused = always.open(Origin::default()).err();
    assert_eq!(refused, Some(DialError::GatewayUnavailable));
    let (direct, director, auto) = ports(GatewayUse::Auto, &gateway);
    let mut scene = Scene {
        direct,
        gateway,
        director,
        port: auto.open(Origin::default()).unwrap(),
    };
    assert_eq!(scene.way(OUT_THERE).await, By::Link);
}

#[tokio::test(start_paused = true)]
async fn what_is_sent_before_the_way_is_known_goes_in_order() {
    let mut scene = scene(GatewayUse::Always);
    let (near, far) = ("10.0.0.7:1".parse().unwrap(), OUT_THERE.parse().unwrap());
    for payload in [b"1", b"2", b"3"] {
        assert!(scene.port.send(&near, payload));
        assert!(scene.port.send(&far, payload));
    }
    scene.turn().await;
    for fake in [&scene.direct, &scene.gateway] {
        let sent = fake.sent.lock();
        let payloads: Vec<&[u8]> = sent.iter().map(|(_, payload)| &payload[..]).collect();
        assert_eq!(payloads, [b"1", b"2", b"3"]);
    }
    let (_, stories) = scene.director.stories(10);
    let told: Vec<_> = stories.into_iter().map(|story| story.left_to).collect();
    assert_eq!(
        told,
        [Some(LeftTo::Gateway("the gateway is for everything"))]
    );
}

#[tokio::test(start_paused = true)]
async fn the_gateway_hears_which_flows_are_calls() {
    let mut scene = scene(GatewayUse::Always);
    let call = Rule {
        when: Condition {
            port: vec!["3478".parse().unwrap()],
            ..Condition::default()
        },
        then: Action {
            class: Some(Class::RealTime),
            ..Action::default()
        },
        ..Rule::default()
    };
    scene.director.set_rules(Arc::new(RuleSet::new([call])));
    for to in ["198.51.100.1:3478", OUT_THERE] {
        assert_eq!(scene.way(to).await, By::Gateway);
    }
    assert_eq!(*scene.gateway.calls.lock(), ["198.51.100.1:3478"]);
}
