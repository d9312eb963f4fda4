use std::io::{self, ErrorKind};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::*;
use crate::connection::{Counted, Observation, Observe};
use crate::either::EitherStream;

/// Two TCP connections with a relay between them: the ends of the two applications, and the relay.
struct Bench {
    near: TcpStream,
    far: TcpStream,
    relay: JoinHandle<RelayReport>,
    counters: Arc<RelayCounters>,
}

async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (client, server) = tokio::join!(TcpStream::connect(address), listener.accept());
    (client.unwrap(), server.unwrap().0)
}

async fn bench(options: RelayOptions) -> Bench {
    let (near, near_inside) = pair().await;
    let (far_inside, far) = pair().await;
    let counters = Arc::new(RelayCounters::default());
    let shared = Arc::clone(&counters);
    let relay = tokio::spawn(async move {
        relay(near_inside.into(), far_inside.into(), &options, &shared).await
    });
    Bench {
        near,
        far,
        relay,
        counters,
    }
}

#[tokio::test]
async fn half_close_travels_and_the_other_half_stays_open() {
    let mut bench = bench(RelayOptions::default()).await;
    bench.near.write_all(b"question").await.unwrap();
    bench.near.shutdown().await.unwrap();
    let mut question = Vec::new();
    bench.far.read_to_end(&mut question).await.unwrap();
    assert_eq!(question, b"question");
    bench.far.write_all(b"answer").await.unwrap();
    bench.far.shutdown().await.unwrap();
    let mut answer = Vec::new();
    bench.near.read_to_end(&mut answer).await.unwrap();
    assert_eq!(answer, b"answer");
    let report = bench.relay.await.unwrap();
    assert_eq!(report.end, RelayEnd::Closed);
    assert_eq!((report.up.as_u64(), report.down.as_u64()), (8, 6));
    assert_eq!(bench.counters.up().as_u64(), 8);
    assert_eq!(bench.counters.down().as_u64(), 6);
}

#[tokio::test]
async fn a_reset_of_the_near_side_reaches_the_far_side_after_the_data() {
    let mut bench = bench(RelayOptions::default()).await;
    bench.near.write_all(&[7; 100_000]).await.unwrap();
    let mut received = vec![0; 100_000];
    bench.far.read_exact(&mut received).await.unwrap();
    bench.near.reset(ResetCode::Aborted);
    drop(bench.near);
    let error = bench.far.read(&mut received).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    let report = bench.relay.await.unwrap();
    assert_eq!(report.end, RelayEnd::ResetByNear(ResetCode::Aborted));
}

#[tokio::test]
async fn a_reset_of_the_far_side_reaches_the_near_side() {
    let mut bench = bench(RelayOptions::default()).await;
    bench.far.reset(ResetCode::Aborted);
    drop(bench.far);
    let error = bench.near.read(&mut [0; 8]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    let report = bench.relay.await.unwrap();
    assert_eq!(report.end, RelayEnd::ResetByFar(ResetCode::Aborted));
}

#[tokio::test]
async fn data_that_was_read_before_a_reset_is_delivered_to_a_slow_reader() {
    let mut bench = bench(RelayOptions::default()).await;
    let sent: Vec<u8> = (0..200_000u32).map(|n| n as u8).collect();
    bench.near.write_all(&sent).await.unwrap();
    // Wait until the relay has taken everything, as an application's peer would have.
    while bench.near.undelivered() > ByteCount::ZERO
        || bench.counters.up().as_u64() < sent.len() as u64
    {
        tokio::task::yield_now().await;
    }
    bench.near.reset(ResetCode::Aborted);
    drop(bench.near);
    let mut received = Vec::new();
    let error = bench.far.read_to_end(&mut received).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert_eq!(received, sent);
}

#[tokio::test]
async fn a_last_answer_is_delivered_although_writing_has_failed() {
    let mut bench = bench(RelayOptions::default()).await;
    bench.far.write_all(b"413 too large").await.unwrap();
    let mut answer = [0; 13];
    bench.near.read_exact(&mut answer).await.unwrap();
    // Closing with unread data makes the kernel send RST.
    bench.near.write_all(b"unread").await.unwrap();
    while bench.far.peek(&mut [0; 8]).await.unwrap() < 6 {}
    drop(bench.far);
    let error = bench.near.read(&mut answer).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert!(matches!(
        bench.relay.await.unwrap().end,
        RelayEnd::ResetByFar(_)
    ));
}

#[tokio::test]
async fn a_reset_after_a_half_close_is_noticed() {
    let mut bench = bench(RelayOptions::default()).await;
    bench.near.shutdown().await.unwrap();
    assert_eq!(bench.far.read(&mut [0; 8]).await.unwrap(), 0);
    bench.near.reset(ResetCode::Aborted);
    drop(bench.near);
    assert!(matches!(
        bench.relay.await.unwrap().end,
        RelayEnd::ResetByNear(_)
    ));
    // The kernel names a reset after the end of the data "broken pipe" or shows it at a write.
    let failed = bench.far.take_error().unwrap().is_some()
        || bench.far.write_all(b"x").await.is_err()
        || bench.far.write_all(b"x").await.is_err();
    assert!(failed);
}

#[tokio::test]
async fn early_bytes_of_both_sides_come_first() {
    let (mut near, near_inside) = pair().await;
    let (far_inside, mut far) = pair().await;
    let near_side = Side {
        stream: near_inside,
        early: b"early up, ".to_vec(),
    };
    let far_side = Side {
        stream: far_inside,
        early: b"early down, ".to_vec(),
    };
    let relay = tokio::spawn(async move {
        let counters = RelayCounters::default();
        relay(near_side, far_side, &RelayOptions::default(), &counters).await
    });
    near.write_all(b"late up").await.unwrap();
    far.write_all(b"late down").await.unwrap();
    near.shutdown().await.unwrap();
    far.shutdown().await.unwrap();
    let (mut up, mut down) = (String::new(), String::new());
    far.read_to_string(&mut up).await.unwrap();
    near.read_to_string(&mut down).await.unwrap();
    assert_eq!(
        (up.as_str(), down.as_str()),
        ("early up, late up", "early down, late down")
    );
    assert_eq!(relay.await.unwrap().end, RelayEnd::Closed);
}

#[tokio::test]
async fn bulk_in_both_directions_arrives_unchanged() {
    let bench = bench(RelayOptions::default()).await;
    let bytes: Arc<Vec<u8>> = Arc::new((0..8_000_000u32).map(|n| ((n * 31) >> 5) as u8).collect());
    let push = |stream: TcpStream| {
        let bytes = Arc::clone(&bytes);
        tokio::spawn(async move {
            let (mut read, mut write) = stream.into_split();
            let writer = async {
                write.write_all(&bytes).await.unwrap();
                write.shutdown().await.unwrap();
            };
            let mut received = Vec::new();
            let (_, result) = tokio::join!(writer, read.read_to_end(&mut received));
            result.unwrap();
            assert!(received == *bytes);
        })
    };
    let (near, far) = (push(bench.near), push(bench.far));
    near.await.unwrap();
    far.await.unwrap();
    let report = bench.relay.await.unwrap();
    assert_eq!(report.end, RelayEnd::Closed);
    assert_eq!(report.up.as_u64(), 8_000_000);
}

#[tokio::test]
async fn an_idle_relay_ends_with_resets_when_asked_to() {
    let options = RelayOptions {
        idle_timeout: Some(Duration::from_millis(20)),
        ..RelayOptions::default()
    };
    let mut bench = bench(options).await;
    assert_eq!(bench.relay.await.unwrap().end, RelayEnd::Idle);
    let near = bench.near.read(&mut [0; 8]).await.unwrap_err();
    let far = bench.far.read(&mut [0; 8]).await.unwrap_err();
    assert_eq!(near.kind(), ErrorKind::ConnectionReset);
    assert_eq!(far.kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_relay_that_is_dropped_resets_both_sides() {
    let mut bench = bench(RelayOptions::default()).await;
    bench.near.write_all(b"x").await.unwrap();
    bench.far.read_exact(&mut [0]).await.unwrap();
    bench.relay.abort();
    let near = bench.near.read(&mut [0; 8]).await.unwrap_err();
    let far = bench.far.read(&mut [0; 8]).await.unwrap_err();
    assert_eq!(near.kind(), ErrorKind::ConnectionReset);
    assert_eq!(far.kind(), ErrorKind::ConnectionReset);
}

/// Returns one slice, then as many bytes as are asked for while any are left, then its end. Keeps
/// the written bytes.
#[derive(Default)]
struct Memory {
    given: Option<Bytes>,
    left: usize,
    room: Option<usize>,
    kept: Arc<Mutex<Vec<Bytes>>>,
}

impl ByteStream for Memory {
    fn poll_read_bytes(&mut self, _: &mut Context<'_>, max: usize) -> Poll<io::Result<Bytes>> {
        if let Some(given) = self.given.take() {
            return Poll::Ready(Ok(given));
        }
        let length = self.left.min(max);
        self.left -= length;
        Poll::Ready(Ok(vec![0; length].into()))
    }

    fn write_room(&self) -> Option<usize> {
        self.room
    }

    fn poll_write_bytes(
        &mut self,
        _: &mut Context<'_>,
        bytes: &mut Bytes,
    ) -> Poll<io::Result<usize>> {
        let taken = bytes.split_to(bytes.len());
        let length = taken.len();
        self.kept.lock().push(taken);
        Poll::Ready(Ok(length))
    }

    fn reset(&mut self, _: ResetCode) {}
}

impl AsyncRead for Memory {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        panic!("bytes are read as slices");
    }
}

impl AsyncWrite for Memory {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        panic!("bytes are written as slices");
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Observe for Memory {
    fn observe(&self) -> Observation {
        Observation::default()
    }
}

/// Wraps a stream as dialers do it.
fn dialed(stream: Memory) -> EitherStream<Counted<Memory>, Memory> {
    EitherStream::Direct(Counted::new(stream, None))
}

/// Bytes beyond the writer's room would be held in the relay.
#[tokio::test]
async fn no_more_is_read_than_the_writer_has_room_for() {
    for (room, largest) in [
        (None, MAX_HELD),
        (Some(50_000), 50_000),
        (Some(0), 16 * 1024),
    ] {
        let near = Memory {
            left: 1_000_000,
            ..Memory::default()
        };
        let far = Memory {
            room,
            ..Memory::default()
        };
        let kept = Arc::clone(&far.kept);
        let (options, counters) = (RelayOptions::default(), RelayCounters::default());
        let (near, far) = (dialed(near), dialed(far));
        relay(near.into(), far.into(), &options, &counters).await;
        let kept = kept.lock();
        assert_eq!(kept.iter().map(Bytes::len).sum::<usize>(), 1_000_000);
        assert_eq!(kept.iter().map(Bytes::len).max(), Some(largest));
    }
}

#[tokio::test]
async fn a_slice_that_was_read_is_handed_over_and_not_copied() {
    let slice = Bytes::from(vec![7; 50_000]);
    let near = Memory {
        given: Some(slice.clone()),
        ..Memory::default()
    };
    let far = Memory::default();
    let kept = Arc::clone(&far.kept);
    let (options, counters) = (RelayOptions::default(), RelayCounters::default());
    let (near, far) = (dialed(near), dialed(far));
    let report = relay(near.into(), far.into(), &options, &counters).await;
    assert_eq!((report.up.as_u64(), report.end), (50_000, RelayEnd::Closed));
    let kept = kept.lock();
    assert_eq!(kept.len(), 1);
    assert_eq!((kept[0].as_ptr(), kept[0].len()), (slice.as_ptr(), 50_000));
}
