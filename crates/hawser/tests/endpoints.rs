//! Endpoints over loopback, with real sockets and real TLS.

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use hawser::{
    BondListener, ConnectError, Connection, ConnectionError, Encryption, Endpoint, HostPort,
    OpenStreamError, OpenToClientError, PeerAddress, Transport, TransportChoice,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const HOUR: Duration = Duration::from_secs(3600);

/// Limits a step of a test to 60 s; a longer one hangs.
async fn in_time<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), work)
        .await
        .expect("it hangs")
}

async fn listen(endpoint: &Endpoint) -> BondListener {
    endpoint.listen("127.0.0.1:0").await.unwrap()
}

fn address_of(listener: &BondListener) -> PeerAddress {
    PeerAddress::new(listener.public_key(), listener.advertised().to_vec())
}

/// Answers every stream with its bytes in reverse.
async fn turn_around(listener: &BondListener) -> std::io::Result<()> {
    loop {
        let (mut stream, _) = listener.accept().await?;
        tokio::spawn(async move {
            let mut heard = Vec::new();
            stream.read_to_end(&mut heard).await?;
            heard.reverse();
            stream.write_all(&heard).await?;
            stream.shutdown().await
        });
    }
}

/// Ends a connection in order.
async fn end(connection: &Connection) {
    connection.close(0, "");
    assert_eq!(connection.closed().await, ConnectionError::LocallyClosed);
}

async fn ask(mut stream: impl AsyncReadWrite, text: &str) -> String {
    stream.write_all(text.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

trait AsyncReadWrite: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin {}
impl<T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin> AsyncReadWrite for T {}

/// Runs `work` while `listener` answers.
async fn served<T>(listener: &BondListener, work: impl Future<Output = T>) -> T {
    in_time(async {
        tokio::select! {
            ended = turn_around(listener) => panic!("the listener ended: {ended:?}"),
            result = work => result,
        }
    })
    .await
}

#[tokio::test]
async fn a_peer_with_an_invite_is_known_by_its_key_and_halves_of_a_stream_work_apart() {
    let (here, there) = (Endpoint::new().unwrap(), Endpoint::new().unwrap());
    let listener = listen(&here).await;
    let invite = listener.invite(HOUR).unwrap();
    let work = async {
        let connection = there.connect(&invite).await.unwrap();
        assert_eq!(connection.peer(), here.public_key());
        let stream = connection.open_with(Bytes::from_static(b"for you")).await;
        let (mut reader, mut writer) = tokio::io::split(stream.unwrap());
        let writing = async {
            for _ in 0..100 {
                writer.write_all(&[7; 30_000]).await.unwrap();
            }
            writer.shutdown().await.unwrap();
        };
        let reading = async {
            let mut read = Vec::new();
            reader.read_to_end(&mut read).await.unwrap();
            read
        };
        let ((), read) = tokio::join!(writing, reading);
        assert!(read.len() == 3_000_000 && read.iter().all(|byte| *byte == 7));
        end(&connection).await;
    };
    let echo = async {
        let (stream, peer) = listener.accept().await.unwrap();
        assert_eq!(peer.key, there.public_key());
        assert_eq!(stream.opening(), &Bytes::from_static(b"for you"));
        let (mut reader, mut writer) = tokio::io::split(stream);
        tokio::io::copy(&mut reader, &mut writer).await.unwrap();
        writer.shutdown().await.unwrap();
    };
    in_time(async { tokio::join!(work, echo) }).await;
    assert_eq!(listener.counters().enrolments, 1);
}

#[tokio::test]
async fn a_key_that_was_allowed_needs_no_invite_and_a_stranger_is_told_no() {
    let (here, there) = (Endpoint::new().unwrap(), Endpoint::new().unwrap());
    let stranger = Endpoint::new().unwrap();
    let listener = listen(&here).await;
    listener.allow(there.public_key());
    let peer = address_of(&listener);
    served(&listener, async {
        let connection = there.connect(&peer).await.unwrap();
        assert_eq!(ask(connection.open().await.unwrap(), "abc").await, "cba");
        let refused = stranger.connect(&peer).await;
        assert!(
            matches!(
                refused,
                Err(ConnectError::Open(OpenStreamError::NotAdmitted))
            ),
            "{refused:?}"
        );
        // The stranger notices a moment before the counter changes.
        while listener.counters().handshakes_failed != 1 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn an_invite_is_for_one_peer() {
    let listener = listen(&Endpoint::new().unwrap()).await;
    let invite = listener.invite(HOUR).unwrap();
    let first = Endpoint::new().unwrap();
    let hurried = Endpoint::builder().connect_timeout(Duration::from_secs(2));
    let second = hurried.build().unwrap();
    served(&listener, async {
        first.connect(&invite).await.unwrap();
        // The same peer may use the invite again.
        first.connect(&invite).await.unwrap();
        let refused = second.connect(&invite).await;
        assert!(matches!(refused, Err(ConnectError::Open(_))), "{refused:?}");
    })
    .await;
}

#[tokio::test]
async fn with_a_state_directory_both_ends_know_each_other_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let (server_dir, client_dir) = (folder.path().join("server"), folder.path().join("client"));
    let at = |path: &std::path::Path| Endpoint::builder().state_dir(path).build().unwrap();
    let listener = listen(&at(&server_dir)).await;
    let invite = listener.invite(HOUR).unwrap();
    let key = served(&listener, async {
        let client = at(&client_dir);
        assert!(client.known_peers().unwrap().is_empty());
        client.connect(&invite).await.unwrap();
        client.public_key()
    })
    .await;
    drop(listener);
    let listener = listen(&at(&server_dir)).await;
    let client = at(&client_dir);
    assert_eq!(client.public_key(), key);
    let known = client.known_peers().unwrap();
    assert_eq!(known.len(), 1);
    assert_eq!(known[0].key(), listener.public_key());
    // The listener has another port now.
    let peer = address_of(&listener);
    served(&listener, async {
        let connection = client.connect(&peer).await.unwrap();
        assert_eq!(ask(connection.open().await.unwrap(), "abc").await, "cba");
        // Revokes the client, and invites it again.
        assert!(listener.revoke(key).unwrap());
        assert!(client.connect(&peer).await.is_err());
        let again = listener.invite(HOUR).unwrap();
        let connection = client.connect(&again).await.unwrap();
        assert_eq!(ask(connection.open().await.unwrap(), "xy").await, "yx");
    })
    .await;
}

#[tokio::test]
async fn without_encryption_the_data_is_on_the_wire_and_with_it_it_is_not() {
    for (encryption, visible) in [(Encryption::None, true), (Encryption::Default, false)] {
        let built = |encryption| Endpoint::builder().encryption(encryption).build().unwrap();
        let listener = listen(&built(encryption)).await;
        let tap = tap(listener.local_addr()).await;
        let here = HostPort::try_from(tap.address).unwrap();
        let invite = listener.invite_to(vec![here], HOUR).unwrap();
        // One end alone can't switch the encryption off.
        let client = built(Encryption::None);
        served(&listener, async {
            let connection = client.connect(&invite).await.unwrap();
            let text = "a text to be found again".repeat(1000);
            let turned: String = text.chars().rev().collect();
            assert_eq!(ask(connection.open().await.unwrap(), &text).await, turned);
            end(&connection).await;
        })
        .await;
        let seen = tap.seen.lock();
        let needle = b"be found again";
        let found = seen.windows(needle.len()).any(|window| window == needle);
        assert_eq!(found, visible, "{encryption:?}");
    }
}

struct Tap {
    address: std::net::SocketAddr,
    seen: std::sync::Arc<parking_lot::Mutex<Vec<u8>>>,
}

/// Forwards connections to `to` and records the bytes of the connecting side.
async fn tap(to: std::net::SocketAddr) -> Tap {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let seen = std::sync::Arc::new(parking_lot::Mutex::new(Vec::new()));
    let keep = std::sync::Arc::clone(&seen);
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            let far = tokio::net::TcpStream::connect(to).await.unwrap();
            let (mut near_in, mut near_out) = near.into_split();
            let (mut far_in, mut far_out) = far.into_split();
            tokio::spawn(async move { tokio::io::copy(&mut far_in, &mut near_out).await });
            let keep = std::sync::Arc::clone(&keep);
            tokio::spawn(async move {
                let mut buffer = [0; 16_384];
                while let Ok(n @ 1..) = near_in.read(&mut buffer).await {
                    keep.lock().extend_from_slice(&buffer[..n]);
                    if far_out.write_all(&buffer[..n]).await.is_err() {
                        break;
                    }
                }
            });
        }
    });
    Tap { address, seen }
}

#[tokio::test]
async fn what_was_written_arrives_though_the_connection_is_dropped() {
    let listener = listen(&Endpoint::new().unwrap()).await;
    let invite = listener.invite(HOUR).unwrap();
    let client = Endpoint::new().unwrap();
    let writing = async {
        let connection = client.connect(&invite).await.unwrap();
        let mut stream = connection.open().await.unwrap();
        stream.write_all(&[3; 200_000]).await.unwrap();
    };
    let reading = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut read = Vec::new();
        stream.read_to_end(&mut read).await.unwrap();
        read.len()
    };
    let ((), read) = in_time(async { tokio::join!(writing, reading) }).await;
    assert_eq!(read, 200_000);
}

#[tokio::test]
async fn a_listener_opens_streams_to_its_peers_and_they_accept_them() {
    let listener = listen(&Endpoint::new().unwrap()).await;
    let invite = listener.invite(HOUR).unwrap();
    let client = Endpoint::new().unwrap();
    let key = client.public_key();
    let refused = listener.open(&key);
    assert_eq!(refused.unwrap_err(), OpenToClientError::NotConnected(key));
    in_time(async {
        let connection = client.connect(&invite).await.unwrap();
        let mut away = listener
            .open_with(&key, Bytes::from_static(b"news"))
            .unwrap();
        away.write_all(b"first").await.unwrap();
        let mut here = connection.accept().await.unwrap();
        assert_eq!(here.opening(), &Bytes::from_static(b"news"));
        away.accepted().await.unwrap();
        away.shutdown().await.unwrap();
        let mut heard = Vec::new();
        here.read_to_end(&mut heard).await.unwrap();
        assert_eq!(heard, b"first");
        assert_eq!(ask(here, "answer").await, "");
        let mut answer = String::new();
        away.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, "answer");
        end(&connection).await;
    })
    .await;
}

#[tokio::test]
async fn a_stream_that_the_connected_side_does_not_read_is_held_back_and_stops_no_other() {
    let listener = listen(&Endpoint::new().unwrap()).await;
    let invite = listener.invite(HOUR).unwrap();
    let client = Endpoint::new().unwrap();
    let key = client.public_key();
    in_time(async {
        let connection = client.connect(&invite).await.unwrap();
        let mut flood = listener.open(&key).unwrap();
        let writing = tokio::spawn(async move {
            flood.write_all(&vec![5; AMOUNT]).await.unwrap();
            flood.shutdown().await.unwrap();
            flood
        });
        let mut unread = connection.accept().await.unwrap();
        for text in ["one", "two", "three"] {
            let away = listener.open(&key).unwrap();
            let answering = async {
                let mut here = connection.accept().await.unwrap();
                let mut heard = Vec::new();
                here.read_to_end(&mut heard).await.unwrap();
                here.write_all(&heard).await.unwrap();
                here.shutdown().await.unwrap();
            };
            let (said, ()) = tokio::join!(ask(away, text), answering);
            assert_eq!(said, text);
        }
        let received = connection.stats().streams;
        let received = received.iter().map(|it| it.received.as_u64()).max();
        assert!(received < Some(AMOUNT as u64 / 2), "{received:?}");
        assert!(!writing.is_finished());
        let mut read = Vec::new();
        unread.read_to_end(&mut read).await.unwrap();
        assert!(read.len() == AMOUNT && read.iter().all(|byte| *byte == 5));
        writing.await.unwrap();
    })
    .await;
}

/// More than both ends buffer for a stream without a reader.
const AMOUNT: usize = 40_000_000;

#[tokio::test]
async fn an_association_carries_what_is_said_where_both_ends_want_one() {
    let endpoint = || {
        Endpoint::builder()
            .transport(TransportChoice::Sctp)
            .build()
            .unwrap()
    };
    let (server, client) = (endpoint(), endpoint());
    let listener = listen(&server).await;
    listener.allow(client.public_key());
    served(&listener, async {
        let connection = client.connect(address_of(&listener)).await.unwrap();
        let carried = || {
            let channels = connection.stats().channels.into_iter();
            let mut carried = channels.filter(|it| it.transport == Transport::Association);
            carried.next()
        };
        // The peer must first announce its port.
        while carried().is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let text = "over ".repeat(20_000);
        let expected: String = text.chars().rev().collect();
        // On a busy machine, some data may use TCP.
        let received = || carried().map_or(0, |it| it.received.as_u64());
        loop {
            let before = received();
            assert!(ask(connection.open().await.unwrap(), &text).await == expected);
            if received() >= before + 100_000 {
                break;
            }
        }
    })
    .await;
}
