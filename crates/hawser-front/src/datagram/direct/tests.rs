use std::future::poll_fn;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use hawser_link::links::Link;
use hawser_types::LinkIndex;
use parking_lot::Mutex;
use tokio::net::UdpSocket;

use super::*;
use crate::destination::HostName;

/// Places flows on the loopback interface with one source address after another, as if those were
/// links.
#[derive(Default)]
struct Script {
    turn: AtomicUsize,
    /// Links that are gone, by their address.
    gone: Mutex<Vec<IpAddr>>,
    missed: Mutex<Vec<LinkIndex>>,
    /// The first link does not exist.
    begins_badly: bool,
    suspected: bool,
}

const ADDRESSES: [&str; 2] = ["127.0.0.9", "127.0.0.10"];

impl PlaceFlows for Arc<Script> {
    type Books = ();

    fn place(&self, _target: Target<'_>, tried: &[LinkIndex]) -> Result<Placement<()>, DialError> {
        if tried.len() >= ADDRESSES.len() {
            return Err(DialError::NetworkUnreachable);
        }
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let address = ADDRESSES[turn % ADDRESSES.len()].parse().unwrap();
        let begins_badly = self.begins_badly && turn == 0;
        let link = Link {
            index: LinkIndex::new(if begins_badly { 1 << 30 } else { 1 }),
            has_default_route_v4: true,
            ..Link::loopback(address)
        };
        Ok(Placement {
            link: Some(Arc::new(link)),
            books: (),
        })
    }

    async fn goes_by_routes(&self, _address: IpAddr) -> bool {
        false
    }

    fn stays(&self, link: &Link, _remote: IpAddr) -> bool {
        !self.gone.lock().contains(&link.addresses[0])
    }

    fn is_suspect(&self, _link: LinkIndex) -> bool {
        self.suspected
    }

    fn on_miss(&self, link: LinkIndex, _waited: Duration) {
        self.missed.lock().push(link);
    }
}

struct Fixed;

impl Resolve for Fixed {
    async fn resolve(&self, name: &HostName) -> Result<Vec<IpAddr>, DialError> {
        match name.as_str() {
            "server.localhost" | "rebind.test" => Ok(vec!["127.0.0.1".parse().unwrap()]),
            _ => Err(DialError::NameNotFound),
        }
    }
}

fn open(script: &Arc<Script>, limits: DirectLimits) -> Box<dyn DatagramPort> {
    DirectPorts::with_resolver(Arc::clone(script), Fixed, limits)
        .open(Origin::default())
        .unwrap()
}

async fn server() -> (UdpSocket, Destination) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let destination = socket.local_addr().unwrap().into();
    (socket, destination)
}

async fn heard(server: &UdpSocket) -> (String, SocketAddr) {
    let mut bytes = [0; 64];
    let (length, from) = server.recv_from(&mut bytes).await.unwrap();
    (String::from_utf8(bytes[..length].to_vec()).unwrap(), from)
}

/// Sends, and polls the port once.
fn send(port: &mut Box<dyn DatagramPort>, to: &Destination, payload: &[u8]) -> bool {
    let sent = port.send(to, payload);
    let mut bytes = [0; 64];
    let mut buffer = ReadBuf::new(&mut bytes);
    let mut cx = Context::from_waker(std::task::Waker::noop());
    assert!(port.poll_receive(&mut cx, &mut buffer).is_pending());
    sent
}

async fn answer(port: &mut Box<dyn DatagramPort>) -> (String, SocketAddr) {
    let mut bytes = [0; 64];
    let mut buffer = ReadBuf::new(&mut bytes);
    let from = poll_fn(|cx| port.poll_receive(cx, &mut buffer)).await;
    (String::from_utf8(buffer.filled().to_vec()).unwrap(), from)
}

#[tokio::test]
async fn flows_stay_on_their_links_and_answers_have_their_source() {
    let script = Arc::new(Script::default());
    let mut port = open(&script, DirectLimits::default());
    let (one, two) = (server().await, server().await);
    for round in 0..3 {
        for ((server, destination), address) in [&one, &two].into_iter().zip(ADDRESSES) {
            assert!(send(&mut port, destination, b"ping"));
            let (text, from) = heard(server).await;
            assert_eq!(
                (&text[..], from.ip().to_string()),
                ("ping", address.to_owned())
            );
            let text = format!("pong {round}");
            server.send_to(text.as_bytes(), from).await.unwrap();
            let source = server.local_addr().unwrap();
            assert_eq!(answer(&mut port).await, (text, source));
        }
    }
}

#[tokio::test]
async fn a_flow_whose_link_is_gone_is_placed_anew_with_its_next_datagram() {
    let script = Arc::new(Script::default());
    let mut port = open(&script, DirectLimits::default());
    let (server, destination) = server().await;
    assert!(send(&mut port, &destination, b"before"));
    let (_, from) = heard(&server).await;
    assert_eq!(from.ip().to_string(), ADDRESSES[0]);
    script.gone.lock().push(from.ip());
    assert!(send(&mut port, &destination, b"after"));
    assert_eq!(heard(&server).await.1.ip().to_string(), ADDRESSES[1]);
    assert!(script.missed.lock().is_empty());
}

#[tokio::test]
async fn a_flow_leaves_a_link_that_others_are_not_answered_on_unless_it_is_answered_itself() {
    let script = Arc::new(Script {
        suspected: true,
        ..Script::default()
    });
    let mut port = open(&script, DirectLimits::default());
    let (server, destination) = server().await;
    for _ in 0..2 {
        assert!(send(&mut port, &destination, b"ping"));
        let (_, from) = heard(&server).await;
        assert_eq!(from.ip().to_string(), ADDRESSES[0]);
        server.send_to(b"pong", from).await.unwrap();
        answer(&mut port).await;
    }
    for address in [ADDRESSES[0], ADDRESSES[1]] {
        assert!(send(&mut port, &destination, b"ping"));
        assert_eq!(heard(&server).await.1.ip().to_string(), address);
    }
}

#[tokio::test]
async fn a_link_that_fails_at_once_costs_no_datagram() {
    let script = Arc::new(Script {
        begins_badly: true,
        ..Script::default()
    });
    let mut port = open(&script, DirectLimits::default());
    let (server, destination) = server().await;
    assert!(send(&mut port, &destination, b"ping"));
    assert_eq!(heard(&server).await.1.ip().to_string(), ADDRESSES[1]);
}

#[tokio::test]
async fn a_flow_without_any_answer_tries_each_link_once_and_then_stays() {
    let script = Arc::new(Script::default());
    let limits = DirectLimits {
        patience: Duration::ZERO,
        ..DirectLimits::default()
    };
    let mut port = open(&script, limits);
    let (server, destination) = server().await;
    for address in [ADDRESSES[0], ADDRESSES[1], ADDRESSES[1], ADDRESSES[1]] {
        assert!(send(&mut port, &destination, b"ping"));
        let (_, from) = heard(&server).await;
        assert_eq!(from.ip().to_string(), address);
    }
    let (_, from) = {
        assert!(send(&mut port, &destination, b"ping"));
        heard(&server).await
    };
    server.send_to(b"pong", from).await.unwrap();
    answer(&mut port).await;
    // The first link is the one without an answer.
    assert_eq!(*script.missed.lock(), [LinkIndex::new(1)]);
}

#[tokio::test]
async fn only_hosts_that_were_sent_to_are_heard_but_by_any_port() {
    let script = Arc::new(Script::default());
    let mut port = open(&script, DirectLimits::default());
    let (server, destination) = server().await;
    assert!(send(&mut port, &destination, b"ping"));
    let (_, from) = heard(&server).await;
    let stranger = UdpSocket::bind("127.0.0.2:0").await.unwrap();
    stranger.send_to(b"stranger", from).await.unwrap();
    let other_port = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    other_port.send_to(b"friend", from).await.unwrap();
    let expected = ("friend".to_owned(), other_port.local_addr().unwrap());
    assert_eq!(answer(&mut port).await, expected);
}

#[tokio::test]
async fn names_are_looked_up_once_and_what_waits_goes_out() {
    let script = Arc::new(Script::default());
    let mut port = open(&script, DirectLimits::default());
    let (server, destination) = server().await;
    let named = |name: &str| Destination::new(name.parse().unwrap(), destination.port);
    assert!(port.send(&named("missing.test"), b"lost"));
    assert!(port.send(&named("server.localhost"), b"one"));
    assert!(port.send(&named("server.localhost"), b"two"));
    for count in 3..=MAX_WAITING_OF_NAMES {
        assert!(port.send(&named("server.localhost"), format!("{count}").as_bytes()));
    }
    assert!(!port.send(&named("server.localhost"), b"too many"));
    // Polling runs the lookups.
    let answered = tokio::spawn(async move {
        let answer = answer(&mut port).await;
        (port, answer)
    });
    let (text, from) = heard(&server).await;
    assert_eq!(text, "one");
    assert_eq!(heard(&server).await.0, "two");
    server.send_to(b"pong", from).await.unwrap();
    let (mut port, (text, source)) = answered.await.unwrap();
    assert_eq!((&text[..], source), ("pong", server.local_addr().unwrap()));
    for _ in 3..=MAX_WAITING_OF_NAMES {
        heard(&server).await;
    }
    assert!(send(&mut port, &named("server.localhost"), b"known by now"));
    assert_eq!(heard(&server).await, ("known by now".to_owned(), from));
}

const MAX_WAITING_OF_NAMES: usize = 8;

#[tokio::test]
async fn beyond_the_limit_the_flow_that_was_still_for_longest_ends() {
    let script = Arc::new(Script::default());
    let limits = DirectLimits {
        flows: 2,
        ..DirectLimits::default()
    };
    let mut port = open(&script, limits);
    let servers = [server().await, server().await, server().await];
    for turn in [0, 1, 0, 2] {
        assert!(send(&mut port, &servers[turn].1, b"ping"));
        heard(&servers[turn].0).await;
    }
    // The first flow kept its place and its link; the second begins anew.
    assert_eq!(script.turn.load(Ordering::Relaxed), 3);
    assert!(send(&mut port, &servers[0].1, b"ping"));
    assert_eq!(script.turn.load(Ordering::Relaxed), 3);
    assert!(send(&mut port, &servers[1].1, b"ping"));
    assert_eq!(script.turn.load(Ordering::Relaxed), 4);
}

#[tokio::test]
async fn an_asker_elsewhere_sends_nothing_to_this_machine_by_address_or_by_name() {
    let script = Arc::new(Script::default());
    let limits = DirectLimits::default();
    let elsewhere = Origin {
        is_elsewhere: true,
        ..Origin::default()
    };
    let ports = DirectPorts::with_resolver(Arc::clone(&script), Fixed, limits);
    let mut port = ports.open(elsewhere).unwrap();
    let mut here = open(&script, limits);
    let (server, destination) = server().await;
    let mapped = format!("[::ffff:127.0.0.1]:{}", destination.port);
    let named = format!("server.localhost:{}", destination.port);
    let to = [
        destination.clone(),
        mapped.parse().unwrap(),
        named.parse().unwrap(),
    ];
    for destination in &to {
        for payload in [b"first", b"later"] {
            send(&mut port, destination, payload);
        }
    }
    // The next poll finds the name; no datagram was sent, so none arrives before this one.
    send(&mut port, &to[2], b"again");
    assert!(send(&mut here, &destination, b"from here"));
    assert_eq!(heard(&server).await.0, "from here");
    assert_eq!(
        script.turn.load(Ordering::Relaxed),
        1,
        "flows that were placed"
    );
}

#[tokio::test]
async fn a_name_of_the_internet_leads_no_datagram_to_this_machine() {
    let script = Arc::new(Script::default());
    let mut port = open(&script, DirectLimits::default());
    let (server, destination) = server().await;
    let named = |name: &str| Destination::new(name.parse().unwrap(), destination.port);
    let (rebound, own) = (named("rebind.test"), named("server.localhost"));
    assert!(port.send(&rebound, b"rebound"));
    assert!(port.send(&own, b"by an own name"));
    // Polling runs the lookups.
    let polling = tokio::spawn(async move { answer(&mut port).await });
    let (text, from) = heard(&server).await;
    assert_eq!(text, "by an own name");
    server.send_to(b"pong", from).await.unwrap();
    assert_eq!(polling.await.unwrap().0, "pong");
    let nothing = server.try_recv_from(&mut [0; 64]);
    assert_eq!(nothing.unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    assert_eq!(
        script.turn.load(Ordering::Relaxed),
        1,
        "flows that were placed"
    );
}
