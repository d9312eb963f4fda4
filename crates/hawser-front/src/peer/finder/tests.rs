use std::sync::atomic::{AtomicUsize, Ordering};

use hawser_keys::identity::Identity;
use hawser_seal::server_handshake;
use hawser_skip::ClosedPort;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;

use super::*;

fn peer() -> Identity {
    Identity::from_seed([7; 32])
}

fn known() -> Vec<PublicKey> {
    vec![Identity::from_seed([8; 32]).public(), peer().public()]
}

fn settings() -> PeerSettings {
    PeerSettings {
        pause: Duration::from_millis(1),
        keep_missing: Duration::from_millis(50),
        ..PeerSettings::at_port(7443)
    }
}

fn address(n: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, n])
}

/// The kinds of listeners on the reserved port.
#[derive(Clone, Copy)]
enum Listener {
    Peer,
    Stranger,
    /// Accepts every connection, and answers like a captive portal.
    Portal,
    /// Accepts every connection and never says anything.
    Silent,
}

/// Returns the address of a new listener of this kind.
async fn listen(kind: Listener) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut kept = Vec::new();
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let me = match kind {
                Listener::Peer => peer(),
                Listener::Stranger => Identity::from_seed([9; 32]),
                Listener::Portal => {
                    let _ = stream.write_all(b"HTTP/1.1 302 Found\r\n\r\n").await;
                    continue;
                }
                Listener::Silent => {
                    kept.push(stream);
                    continue;
                }
            };
            tokio::spawn(async move {
                let _ = server_handshake(stream, &[], &me, Arc::new(|_| true)).await;
            });
        }
    });
    address
}

/// Returns a connector that counts, and connects there whatever the address is.
fn leading_to(place: SocketAddr, count: &Arc<AtomicUsize>) -> impl Connect<Stream = TcpStream> {
    let count = Arc::clone(count);
    move |to: SocketAddr| {
        assert_eq!(to.port(), 7443);
        count.fetch_add(1, Ordering::Relaxed);
        TcpStream::connect(place)
    }
}

/// Waits until the probe of an address is over.
async fn settled(finder: &PeerFinder, address: IpAddr) {
    while finder.shared.cache.lock().is_probing(address) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn a_peer_is_known_from_the_second_time_on() {
    let count = Arc::default();
    let connect = leading_to(listen(Listener::Peer).await, &count);
    let finder = PeerFinder::start(connect, known, settings());
    let mut found = finder.found();
    assert_eq!(finder.ask(address(1)), None);
    found.changed().await.unwrap();
    assert_eq!(
        found.borrow_and_update().get(&address(1)),
        Some(&peer().public())
    );
    let mapped = "::ffff:192.0.2.1".parse().unwrap();
    assert_eq!(finder.ask(mapped), Some(peer().public()));
    assert_eq!(count.load(Ordering::Relaxed), 1);

    finder.give_up(address(1));
    assert!(found.borrow_and_update().is_empty());
    assert_eq!(finder.ask(address(1)), None);
}

#[tokio::test]
async fn no_other_listener_is_taken_for_a_peer() {
    for kind in [Listener::Stranger, Listener::Portal, Listener::Silent] {
        let count = Arc::default();
        let connect = leading_to(listen(kind).await, &count);
        let settings = PeerSettings {
            patience: Duration::from_millis(300),
            ..settings()
        };
        let finder = PeerFinder::start(connect, known, settings);
        assert_eq!(finder.ask(address(1)), None);
        settled(&finder, address(1)).await;
        assert_eq!(finder.ask(address(1)), None);
        assert!(finder.found().borrow().is_empty());
        assert_eq!(count.load(Ordering::Relaxed), 1);
    }
}

#[tokio::test]
async fn a_peer_that_begins_to_run_later_is_found_when_it_is_asked_for_again() {
    // Nothing listens there yet.
    let closed = ClosedPort::new();
    let target = Arc::new(Mutex::new(closed.address()));
    let there = Arc::clone(&target);
    let connect = move |_| TcpStream::connect(*there.lock());
    let finder = PeerFinder::start(connect, known, settings());
    assert_eq!(finder.ask(address(1)), None);
    settled(&finder, address(1)).await;
    *target.lock() = listen(Listener::Peer).await;
    let asking = async {
        while finder.ask(address(1)).is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(30), asking).await.unwrap();
}

#[tokio::test]
async fn who_knows_no_peer_probes_nothing() {
    let count = Arc::default();
    let connect = leading_to(listen(Listener::Peer).await, &count);
    let finder = PeerFinder::start(connect, Vec::new, settings());
    finder.ask(address(1));
    settled(&finder, address(1)).await;
    assert_eq!(finder.ask(address(1)), None);
    assert_eq!(count.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn many_destinations_at_once_wait_for_their_turn_or_are_left_out() {
    let count: Arc<AtomicUsize> = Arc::default();
    let connect = leading_to(listen(Listener::Silent).await, &count);
    let finder = PeerFinder::start(connect, known, settings());
    for n in 0..=255 {
        assert_eq!(finder.ask(address(n)), None);
    }
    while count.load(Ordering::Relaxed) < MAX_AT_ONCE {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    tokio::time::sleep(Duration::from_millis(30)).await;
    assert_eq!(count.load(Ordering::Relaxed), MAX_AT_ONCE);
    let waiting = (0..=255).filter(|n| finder.shared.cache.lock().is_probing(address(*n)));
    assert!(waiting.count() <= MAX_WAITING + MAX_AT_ONCE + 1);
}
