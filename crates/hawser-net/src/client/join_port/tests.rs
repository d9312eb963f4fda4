//! Which connections the port accepts; all others are closed without a byte.

use hawser_session::seal::{Aead, SessionKeys};
use hawser_session::{SessionConfig, Side};
use hawser_types::ByteCount;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpSocket;
use zeroize::Zeroizing;

use super::*;
use crate::congestion::Congestion;
use crate::session_budgets::SessionBudgets;

/// A client's end of a session with keys of its own.
fn session(seed: u8) -> Driver {
    Driver::start(
        Side::Client,
        SessionConfig::default(),
        keys(seed),
        Congestion::choose(None),
        SessionBudgets::of_client(ByteCount::ZERO),
    )
}

fn keys(seed: u8) -> SessionKeys {
    SessionKeys::new(Zeroizing::new([seed; 32]), Aead::Aes128Gcm)
}

fn ends() -> OfferEnds {
    OfferEnds {
        gateway: "192.0.2.1:40000".parse().unwrap(),
        client: "198.51.100.7:7450".parse().unwrap(),
    }
}

fn judged(waiting: &Waiting, offer: &JoinOffer, ends: OfferEnds) -> Result<(), Refused> {
    waiting.judge(offer, ends).map(drop)
}

#[tokio::test]
async fn an_offer_is_taken_once_and_only_by_its_session() {
    let waiting = Arc::new(Waiting::default());
    let (driver, other) = (session(1), session(2));
    let offers = waiting.add(&driver);
    let _others = waiting.add(&other);
    let offer = keys(1).join_offer(3, ends());
    let forged = JoinOffer {
        session: other.id(),
        ..offer
    };
    assert_eq!(judged(&waiting, &forged, ends()), Err(Refused::Forged));
    let elsewhere = OfferEnds {
        gateway: "192.0.2.1:40001".parse().unwrap(),
        ..ends()
    };
    assert_eq!(judged(&waiting, &offer, elsewhere), Err(Refused::Forged));
    let unknown = keys(3).join_offer(3, ends());
    assert_eq!(judged(&waiting, &unknown, ends()), Err(Refused::NoSession));
    // Refused offers have used up no number.
    assert_eq!(judged(&waiting, &offer, ends()), Ok(()));
    assert_eq!(judged(&waiting, &offer, ends()), Err(Refused::Replayed));
    let late = keys(1).join_offer(2, ends());
    assert_eq!(judged(&waiting, &late, ends()), Ok(()), "out of order");
    // The session is over.
    drop(offers);
    let next = keys(1).join_offer(4, ends());
    assert_eq!(judged(&waiting, &next, ends()), Err(Refused::NoSession));
}

#[tokio::test]
async fn a_port_to_which_no_gateway_connects_is_refused() {
    let (_sender, links) = watch::channel(Arc::default());
    let error = JoinPort::open(MIN_JOIN_PORT - 1, Vec::new(), links, None).unwrap_err();
    assert_eq!(error.to_string(), "ports below 1024 belong to services");
}

#[tokio::test]
async fn connections_in_vain_are_counted_where_they_were_meant_for_a_session() {
    let waiting = Waiting::default();
    let remote = "192.0.2.1:40000".parse().unwrap();
    for problem in [Refused::Silent, Refused::NoSession, Refused::NoPlace] {
        waiting.tell(remote, problem);
    }
    assert_eq!(waiting.missed.load(Ordering::Relaxed), 0);
    waiting.tell(remote, Refused::Forged);
    assert_eq!(waiting.missed.load(Ordering::Relaxed), 1);
}

/// A port on the loopback interface, and its address.
async fn open() -> (Arc<Waiting>, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let waiting = Arc::new(Waiting::default());
    tokio::spawn(listen(Arc::clone(&waiting), listener));
    (waiting, at)
}

/// A connection to the port from `from`, and its ends.
async fn connect(from: &str, to: SocketAddr) -> (TcpStream, OfferEnds) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(format!("{from}:0").parse().unwrap()).unwrap();
    let stream = socket.connect(to).await.unwrap();
    let ends = OfferEnds {
        gateway: stream.local_addr().unwrap(),
        client: to,
    };
    (stream, ends)
}

/// Asserts that the connection ends without a byte.
async fn is_closed_without_a_word(mut stream: TcpStream) {
    let mut said = Vec::new();
    let end = timeout(LONG, stream.read_to_end(&mut said)).await;
    // A reset is an end as well: the received bytes were not read.
    let _ = end.expect("the connection is closed");
    assert!(said.is_empty(), "{said:?}");
}

#[tokio::test]
async fn a_session_gets_the_connection_that_its_gateway_began() {
    let (waiting, at) = open().await;
    let driver = session(1);
    let mut offers = waiting.add(&driver);
    let (mut stream, ends) = connect("127.0.0.1", at).await;
    let offer = keys(1).join_offer(0, ends).encode();
    // In pieces.
    for half in offer.chunks(30) {
        stream.write_all(half).await.unwrap();
        tokio::task::yield_now().await;
    }
    let offered = timeout(LONG, offers.next()).await.unwrap().unwrap();
    assert_eq!(offered.stream.peer_addr().unwrap(), ends.gateway);
    assert_eq!(offered.local, at.ip());
}

#[tokio::test]
async fn strangers_are_told_nothing() {
    let (waiting, at) = open().await;
    let driver = session(1);
    let _offers = waiting.add(&driver);
    let (captured, ends) = connect("127.0.0.1", at).await;
    let captured_offer = keys(1).join_offer(0, ends).encode();
    drop(captured);
    // An offer for another connection, an offer of another session, and bytes that are no offer.
    let (mut replay, _) = connect("127.0.0.1", at).await;
    replay.write_all(&captured_offer).await.unwrap();
    let (mut foreign, ends) = connect("127.0.0.1", at).await;
    let foreign_offer = keys(2).join_offer(0, ends).encode();
    foreign.write_all(&foreign_offer).await.unwrap();
    let (mut web, _) = connect("127.0.0.1", at).await;
    let request = b"GET / HTTP/1.1\r\nHost: example.org\r\nUser-Agent: curl/8.0.0\r\n\r\n";
    web.write_all(request).await.unwrap();
    for stream in [replay, foreign, web] {
        is_closed_without_a_word(stream).await;
    }
}

#[tokio::test]
async fn those_that_say_nothing_neither_stay_nor_keep_the_gateway_out() {
    let (waiting, at) = open().await;
    let driver = session(1);
    let mut offers = waiting.add(&driver);
    let mut silent = Vec::new();
    for _ in 0..MAX_HALF_OPEN * 2 {
        silent.push(connect("127.0.0.1", at).await.0);
    }
    let (mut stream, ends) = connect("127.0.0.2", at).await;
    let offer = keys(1).join_offer(0, ends).encode();
    stream.write_all(&offer).await.unwrap();
    let offered = timeout(LONG, offers.next()).await.unwrap();
    assert!(offered.is_some());
    is_closed_without_a_word(silent.swap_remove(0)).await;
}

#[tokio::test]
async fn more_connections_than_a_session_waits_for_are_closed() {
    let (waiting, at) = open().await;
    let driver = session(1);
    let _offers = waiting.add(&driver);
    let mut all = Vec::new();
    for number in 0..=QUEUE as u64 {
        let (mut stream, ends) = connect("127.0.0.1", at).await;
        let offer = keys(1).join_offer(number, ends).encode();
        stream.write_all(&offer).await.unwrap();
        all.push(stream);
    }
    let closing = all
        .into_iter()
        .map(|stream| Box::pin(is_closed_without_a_word(stream)));
    futures_util::future::select_all(closing).await;
}

/// Far longer than any of it takes.
const LONG: Duration = Duration::from_secs(60);
