//! Attacks of strangers at a gateway's port, and their outcomes.

mod common;

use std::net::SocketAddr;
use std::time::Duration;

use bytes::BytesMut;
use common::{Kind, Pair, PairOptions, Way, echo_checked, in_time, until};
use hawser_keys::identity::Identity;
use hawser_net::clock;
use hawser_net::gateway::AcceptLimits;
use hawser_seal::{TlsError, client_handshake, is_tls_record};
use hawser_session::seal::{Aead, Direction, SessionKeys};
use hawser_types::{ChannelId, SessionId};
use hawser_wire::{ChannelRole, JOIN_PRELUDE_LENGTH, JoinPrelude, StateFrame};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use zeroize::Zeroizing;

/// Sends `bytes` to the gateway, and returns its answer until it closes.
async fn say(pair: &Pair, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(pair.address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    hear(&mut stream).await
}

async fn hear(stream: &mut TcpStream) -> Vec<u8> {
    let mut heard = Vec::new();
    // A reset counts as an end.
    let _ = stream.read_to_end(&mut heard).await;
    heard
}

/// Returns the bytes that the client sent to join one of its channels.
fn join_of(pair: &Pair) -> Vec<u8> {
    let mut pipes = pair.forwarders.iter().flat_map(|f| f.pipes());
    let joined = pipes.find(|pipe| matches!(pipe.kind(), Kind::Join(_)));
    joined.expect("some channel has joined").said()
}

fn session_of(join: &[u8]) -> SessionId {
    let prelude = join[..JOIN_PRELUDE_LENGTH].try_into().unwrap();
    JoinPrelude::decode(&prelude).unwrap().session
}

/// Forges a join as the holder of `secret` would make it.
fn forge(session: SessionId, channel: u32, secret: [u8; 32]) -> Vec<u8> {
    let channel = ChannelId::new(channel);
    let mut out = BytesMut::from(&JoinPrelude { session, channel }.encode()[..]);
    let keys = SessionKeys::new(Zeroizing::new(secret), Aead::Aes128Gcm);
    let mut frame = BytesMut::new();
    let role = ChannelRole::Bulk;
    StateFrame::Join { role, link: 1 }.encode(&mut frame);
    let mut sealer = keys.sealer(channel, Direction::ClientToGateway);
    sealer.seal(clock::now(), &frame, &Default::default(), &mut out);
    out.to_vec()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forged_join_is_refused_and_does_not_use_its_number_up() {
    in_time(async {
        let (pair, client) = Pair::echoing(PairOptions::default()).await;
        let session = session_of(&join_of(&pair));
        // The numbers that the client would use next.
        for (count, channel) in (4..8).enumerate() {
            let forged = forge(session, channel, [9; 32]);
            assert!(say(&pair, &forged).await.is_empty());
            pair.until("it is counted", |c| c.joins_refused == count as u64 + 1)
                .await;
        }
        assert_eq!(pair.counters().joins, 3);
        let first = pair.forwarders.iter().flat_map(|f| f.pipes()).next();
        first.unwrap().cut();
        pair.until("the next one joins", |c| c.joins == 4).await;
        echo_checked(&client, 1, 1_000_000).await;
        assert_eq!(pair.counters().joins_refused, 4);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_of_an_unknown_session_or_with_a_number_that_was_not_granted_is_refused() {
    in_time(async {
        let (pair, client) = Pair::echoing(PairOptions::default()).await;
        let session = session_of(&join_of(&pair));
        let unknown = forge(SessionId::new([1; 16]), 4, [9; 32]);
        assert!(say(&pair, &unknown).await.is_empty());
        for channel in [0, u32::MAX] {
            assert!(
                say(&pair, &forge(session, channel, [9; 32]))
                    .await
                    .is_empty()
            );
        }
        pair.until("they are counted", |c| c.joins_refused == 3)
            .await;
        echo_checked(&client, 1, 100_000).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_that_is_replayed_is_refused_while_its_channel_lives_and_afterwards() {
    in_time(async {
        let (pair, client) = Pair::echoing(PairOptions::default()).await;
        echo_checked(&client, 1, 1_000_000).await;
        let recorded = join_of(&pair);
        assert!(say(&pair, &recorded).await.is_empty());
        pair.until("it is counted", |c| c.joins_refused == 1).await;
        let all = pair.forwarders.iter().flat_map(|f| f.pipes());
        let of_this = all.filter(|pipe| pipe.said() == recorded);
        of_this.for_each(|pipe| pipe.cut());
        pair.until("another one took its place", |c| c.joins == 4)
            .await;
        assert!(say(&pair, &recorded).await.is_empty());
        pair.until("it is counted too", |c| c.joins_refused == 2)
            .await;
        echo_checked(&client, 2, 1_000_000).await;
        assert_eq!(pair.counters().sessions, 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_is_replayed_from_its_handshake_is_a_failed_handshake() {
    in_time(async {
        let (pair, client) = Pair::echoing(PairOptions::default()).await;
        let failed = pair.counters().handshakes_failed;
        let mut pipes = pair.forwarders.iter().flat_map(|f| f.pipes());
        let first = pipes.find(|pipe| pipe.kind() == Kind::First).unwrap();
        let answer = say(&pair, &first.said()).await;
        assert!(is_tls_record(answer[0]));
        pair.until("it is counted", |c| c.handshakes_failed > failed)
            .await;
        echo_checked(&client, 1, 100_000).await;
        assert_eq!(pair.counters().sessions, 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_that_breaks_off_is_refused_wherever_it_does() {
    in_time(async {
        let (pair, client) = Pair::echoing(PairOptions::default()).await;
        let session = session_of(&join_of(&pair));
        let join = forge(session, 5, [9; 32]);
        let ends = [
            1,
            4,
            JOIN_PRELUDE_LENGTH - 1,
            JOIN_PRELUDE_LENGTH + 3,
            join.len() - 1,
        ];
        for (count, end) in ends.into_iter().enumerate() {
            let mut stream = TcpStream::connect(pair.address).await.unwrap();
            stream.write_all(&join[..end]).await.unwrap();
            stream.shutdown().await.unwrap();
            assert!(hear(&mut stream).await.is_empty());
            pair.until("it is counted", |c| c.joins_refused == count as u64 + 1)
                .await;
        }
        echo_checked(&client, 1, 100_000).await;
    })
    .await;
}

#[tokio::test]
async fn what_begins_with_neither_a_handshake_nor_a_join_is_garbage() {
    in_time(async {
        let pair = Pair::new(PairOptions::default()).await;
        let garbage: [&[u8]; 4] = [b"GET / HTTP/1.1\r\n\r\n", &[0], &[0xff; 3000], &[5, 1, 0]];
        for (count, bytes) in garbage.into_iter().enumerate() {
            assert!(say(&pair, bytes).await.is_empty());
            pair.until("it is counted", |c| c.garbage == count as u64 + 1)
                .await;
        }
        assert_eq!(pair.counters().sessions, 0);
    })
    .await;
}

#[tokio::test]
async fn a_client_that_dawdles_is_disconnected() {
    in_time(async {
        let pair = Pair::new(PairOptions::default()).await;
        let halves: [&[u8]; 4] = [b"", b"HWJ1half", &[0x16], &[0x16, 3, 1, 0, 200, 1, 0]];
        let mut streams = Vec::new();
        for half in halves {
            let mut stream = TcpStream::connect(pair.address).await.unwrap();
            stream.write_all(half).await.unwrap();
            streams.push(stream);
        }
        for stream in &mut streams {
            assert!(hear(stream).await.is_empty());
        }
        pair.until("they are counted", |c| c.timed_out == 4).await;
        assert_eq!(pair.counters().sessions, 0);
    })
    .await;
}

#[tokio::test]
async fn a_stranger_gets_a_failed_handshake_and_no_byte_of_hawser() {
    in_time(async {
        let pair = Pair::new(PairOptions::default()).await;
        let stranger = Identity::generate().unwrap();
        let stream = TcpStream::connect(pair.address).await.unwrap();
        let mut handshake = client_handshake(stream, &stranger, pair.key).await.unwrap();
        let refused = handshake.accepted().await;
        assert!(
            matches!(refused, Err(TlsError::Refused { .. })),
            "{refused:?}"
        );
        assert!(
            hear(&mut handshake.stream).await.is_empty(),
            "nothing behind the alert"
        );
        pair.until("it is counted", |c| c.handshakes_failed == 1)
            .await;
        let counters = pair.counters();
        assert_eq!((counters.sessions, counters.connections), (0, 1));
        assert!(pair.gateway.sessions(0).is_empty());
    })
    .await;
}

#[tokio::test]
async fn half_open_connections_of_one_source_are_limited_and_make_room_for_later_ones() {
    in_time(async {
        let limits = AcceptLimits {
            half_open_per_source: 1,
            ..AcceptLimits::default()
        };
        let pair = Pair::new(PairOptions::limited(limits)).await;
        let mut first = begun_by(&pair, "127.0.0.1").await;
        pair.until("it is there", |c| c.connections == 1).await;
        let _other = begun_by(&pair, "127.0.0.2").await;
        pair.until("both are there", |c| c.connections == 2).await;
        assert_eq!(pair.counters().limited, 0);
        let _second = begun_by(&pair, "127.0.0.1").await;
        assert!(hear(&mut first).await.is_empty());
        pair.until("the first one is counted", |c| c.limited == 1)
            .await;
        assert_eq!(pair.counters().timed_out, 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_of_eight_addresses_keep_no_enrolled_client_out() {
    in_time(async {
        // The default limits of `hawser serve`.
        let limits = AcceptLimits {
            half_open: 256,
            ..AcceptLimits::default()
        };
        let pair = Pair::new(PairOptions::limited(limits)).await;
        pair.serve_echo();
        let mut idle = Vec::new();
        for host in 2..10 {
            for _ in 0..32 {
                idle.push(begun_by(&pair, &format!("127.0.0.{host}")).await);
            }
        }
        pair.until("they are all there", |c| c.connections == 256)
            .await;
        let client = pair.enrolled_client();
        pair.until("it is let in", |c| c.sessions == 1).await;
        // The client did not wait until the idle connections timed out.
        assert_eq!(pair.counters().timed_out, 0);
        echo_checked(&client, 1, 10_000).await;
    })
    .await;
}

/// Opens a connection from the address `from` that begins a handshake, and then stays silent.
async fn begun_by(pair: &Pair, from: &str) -> TcpStream {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    let from = SocketAddr::new(from.parse().unwrap(), 0);
    socket.bind(from).unwrap();
    let mut stream = socket.connect(pair.address).await.unwrap();
    stream.write_all(&[0x16]).await.unwrap();
    stream
}

/// Options of a gateway where a client may have two sessions.
fn two_sessions() -> PairOptions {
    PairOptions::limited(AcceptLimits {
        sessions_per_client: 2,
        ..AcceptLimits::default()
    })
}

#[tokio::test]
async fn one_client_can_have_so_many_sessions_only() {
    in_time(async {
        let pair = Pair::new(two_sessions()).await;
        pair.serve_echo();
        let identity = Identity::generate().unwrap();
        pair.door.peers.lock().insert(identity.public());
        let start = || pair.start(pair.config(identity.clone(), None));
        let (first, second) = (start(), start());
        echo_checked(&first, 1, 1000).await;
        echo_checked(&second, 1, 1000).await;
        let third = start();
        pair.until("the third is turned away", |c| c.limited >= 1)
            .await;
        assert_eq!(pair.gateway.sessions(0).len(), 2);
        drop(third);
        // As if the client was killed: its session stays, and is evicted for a new one.
        drop(first);
        let lost = || {
            let sessions = pair.gateway.sessions(0);
            sessions.iter().any(|it| it.session.channels.is_empty())
        };
        until("the gateway has lost the first", lost).await;
        let fourth = start();
        echo_checked(&fourth, 1, 1000).await;
        echo_checked(&second, 2, 1000).await;
        assert_eq!(pair.gateway.sessions(0).len(), 2);
    })
    .await;
}

#[tokio::test]
async fn sessions_that_began_with_an_invite_count_among_those_of_its_client() {
    in_time(async {
        let pair = Pair::new(two_sessions()).await;
        pair.serve_echo();
        let invite = pair.invite();
        let identity = Identity::generate().unwrap();
        let start = || pair.start(pair.config(identity.clone(), Some(invite.clone())));
        let (first, second) = (start(), start());
        echo_checked(&first, 1, 1000).await;
        echo_checked(&second, 1, 1000).await;
        let _third = start();
        pair.until("the third is turned away", |c| c.limited >= 1)
            .await;
        let own = pair.gateway.sessions(0).into_iter();
        let own = own.filter(|session| session.peer == identity.public());
        assert_eq!(own.count(), 2);
        echo_checked(&second, 2, 1000).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_client_is_cut_off_and_does_not_come_back() {
    in_time(async {
        let (pair, client) = Pair::echoing(PairOptions::default()).await;
        let mut stream = client.open(bytes::Bytes::new()).await.unwrap();
        stream.write_all(b"x").await.unwrap();
        stream.read_exact(&mut [0]).await.unwrap();
        let failed = pair.counters().handshakes_failed;
        pair.door.peers.lock().clear();
        pair.gateway.drop_revoked();
        assert!(common::read_checked(&mut stream).await.is_err());
        until("its session is over", || {
            pair.gateway.sessions(0).is_empty()
        })
        .await;
        pair.until("it is refused", |c| c.handshakes_failed > failed)
            .await;
        let refused = || {
            let problem = client.snapshot(0).problem;
            problem.is_some_and(|text| text.contains("refused"))
        };
        until("it knows", refused).await;
        assert_eq!(pair.counters().sessions, 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_was_written_can_be_read_on_the_way() {
    in_time(async {
        let (pair, client) = Pair::echoing(PairOptions::default()).await;
        let mut stream = client.open(bytes::Bytes::new()).await.unwrap();
        let text = b"something to be found again".repeat(40);
        stream.write_all(&text).await.unwrap();
        let mut back = vec![0; text.len()];
        stream.read_exact(&mut back).await.unwrap();
        for pipe in pair.forwarders.iter().flat_map(|f| f.all_pipes()) {
            let said = pipe.said();
            assert!(!said.windows(8).any(|window| window == b"be found"));
            assert!(pipe.forwarded(Way::ToGateway) > 0 || said.is_empty());
        }
        client.close(Duration::from_secs(20)).await;
    })
    .await;
}
