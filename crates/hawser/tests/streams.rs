//! Streams over loopback: halves, codes, datagrams, reading out of order, futures that are dropped.

#[allow(
    dead_code,
    unreachable_pub,
    reason = "not every test file needs all of it"
)]
mod common;

use std::future::Future;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use common::{Pair, in_time};
use hawser::{
    BondStream, MAX_DATAGRAM, ReadError, ResetByPeer, SendDatagramError, StoppedByPeer, WriteError,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const CODE: u32 = 77;
const MANY: usize = 3_000_000;

/// Polls a future once, perhaps a few times, and drops it.
async fn give_up<T>(work: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(Duration::from_millis(1), work)
        .await
        .ok()
}

fn peer_code<E: Copy + std::error::Error + 'static>(error: &io::Error) -> Option<E> {
    error.get_ref()?.downcast_ref().copied()
}

async fn rest_of(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> Vec<u8> {
    let mut read = Vec::new();
    stream.read_to_end(&mut read).await.unwrap();
    read
}

#[tokio::test]
async fn halves_move_to_tasks_of_their_own_and_join_again() {
    in_time(async {
        let pair = Pair::new().await;
        let (near, mut far) = pair.stream().await;
        let id = near.id();
        let (mut receive, mut send) = near.into_split();
        let writing = tokio::spawn(async move {
            send.write_all(&vec![3; MANY]).await.unwrap();
            send
        });
        let mut there = vec![0; MANY];
        far.read_exact(&mut there).await.unwrap();
        far.write_all(b"seen").await.unwrap();
        let mut seen = [0; 4];
        receive.read_exact(&mut seen).await.unwrap();
        let near = BondStream::rejoin(receive, writing.await.unwrap()).unwrap();
        assert_eq!(near.id(), id);
        // The joined stream ends in order.
        drop(near);
        assert_eq!(rest_of(&mut far).await, b"");
        let other = pair.stream().await.0.into_split();
        let another = pair.stream().await.0.into_split();
        assert!(BondStream::rejoin(other.0, another.1).is_err());
    })
    .await;
}

#[tokio::test]
async fn a_writer_that_is_stopped_hears_the_code_and_goes_on_reading() {
    in_time(async {
        let pair = Pair::new().await;
        let (near, far) = pair.stream().await;
        let (mut near_in, mut near_out) = near.into_split();
        let (mut far_in, mut far_out) = far.into_split();
        let writing = async {
            let error = near_out.write_all(&vec![0; 50 * MANY]).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
            assert_eq!(peer_code(&error), Some(StoppedByPeer { code: CODE }));
        };
        let stopping = async {
            far_in.read_u8().await.unwrap();
            far_in.stop(CODE);
            assert_eq!(far_in.read_chunk(9).await, Ok(None));
        };
        tokio::join!(writing, stopping);
        let mut bytes = Bytes::from_static(b"more");
        let stopped = WriteError::Stopped { code: CODE };
        assert_eq!(near_out.write_bytes(&mut bytes).await, Err(stopped.clone()));
        assert_eq!(near_out.stopped().await, Ok(Some(CODE)));
        assert_eq!(near_out.acknowledged().await, Err(stopped));
        far_out.write_all(b"still here").await.unwrap();
        far_out.finish().unwrap();
        assert_eq!(rest_of(&mut near_in).await, b"still here");
        assert_eq!(far_out.stopped().await, Ok(None));
    })
    .await;
}

#[tokio::test]
async fn a_reader_whose_peer_resets_its_half_hears_the_code_and_goes_on_writing() {
    in_time(async {
        let pair = Pair::new().await;
        let (near, far) = pair.stream().await;
        let (mut near_in, mut near_out) = near.into_split();
        let (mut far_in, mut far_out) = far.into_split();
        near_out.write_all(&vec![0; 500_000]).await.unwrap();
        near_out.reset(CODE);
        let error = loop {
            match far_in.read_chunk(MANY).await {
                Ok(chunk) => assert!(chunk.is_some(), "an end that was never written"),
                Err(error) => break error,
            }
        };
        assert_eq!(error, ReadError::Reset { code: CODE });
        let error = far_in.read_u8().await.unwrap_err();
        assert_eq!(peer_code(&error), Some(ResetByPeer { code: CODE }));
        far_out.write_all(b"still here").await.unwrap();
        far_out.finish().unwrap();
        assert_eq!(rest_of(&mut near_in).await, b"still here");
    })
    .await;
}

#[tokio::test]
async fn a_reset_of_both_directions_reaches_reader_and_writer() {
    in_time(async {
        let pair = Pair::new().await;
        let (mut near, far) = pair.stream().await;
        let (mut far_in, mut far_out) = far.into_split();
        let reading = tokio::spawn(async move { far_in.read_chunk(9).await });
        let writing = tokio::spawn(async move {
            let error = far_out.write_all(&vec![0; 50 * MANY]).await.unwrap_err();
            (error, far_out)
        });
        tokio::time::sleep(Duration::from_millis(50)).await;
        near.reset(CODE);
        let reset = ReadError::Reset { code: CODE };
        assert_eq!(reading.await.unwrap(), Err(reset));
        let (error, mut far_out) = writing.await.unwrap();
        assert_eq!(peer_code(&error), Some(ResetByPeer { code: CODE }));
        let reset = WriteError::Reset { code: CODE };
        assert_eq!(far_out.acknowledged().await, Err(reset.clone()));
        assert_eq!(far_out.stopped().await, Err(reset));
    })
    .await;
}

#[tokio::test]
async fn halves_that_are_dropped_end_their_direction_alone() {
    in_time(async {
        let pair = Pair::new().await;
        let (near, mut far) = pair.stream().await;
        let (mut near_in, mut near_out) = near.into_split();
        near_out.write_all(b"last").await.unwrap();
        drop(near_out);
        assert_eq!(rest_of(&mut far).await, b"last");
        far.write_all(b"back").await.unwrap();
        let mut back = [0; 4];
        near_in.read_exact(&mut back).await.unwrap();
        drop(near_in);
        let (_far_in, mut far_out) = far.into_split();
        assert_eq!(far_out.stopped().await, Ok(Some(0)));
    })
    .await;
}

#[tokio::test]
async fn futures_that_are_dropped_lose_no_byte() {
    in_time(async {
        let pair = Pair::new().await;
        let (mut near, mut far) = pair.stream().await;
        let writing = async {
            let mut rest = Bytes::from((0..MANY).map(|n| (n / 3) as u8).collect::<Vec<_>>());
            while !rest.is_empty() {
                if let Some(written) = give_up(near.write_bytes(&mut rest)).await {
                    written.unwrap();
                }
            }
            near.shutdown().await.unwrap();
            while give_up(near.acknowledged()).await.is_none() {}
        };
        let reading = async {
            let mut read = Vec::new();
            loop {
                match give_up(far.read_chunk(10_000)).await {
                    Some(Ok(Some(chunk))) => {
                        assert_eq!(chunk.offset, read.len() as u64 + 1);
                        read.extend_from_slice(&chunk.bytes);
                    }
                    Some(Ok(None)) => break read,
                    Some(Err(error)) => panic!("{error}"),
                    None => {}
                }
            }
        };
        let ((), read) = tokio::join!(writing, reading);
        assert!(
            read.iter()
                .enumerate()
                .all(|(n, byte)| *byte == (n / 3) as u8)
        );
        assert_eq!(read.len(), MANY);
    })
    .await;
}

#[tokio::test]
async fn datagrams_of_any_size_arrive_though_futures_are_dropped() {
    in_time(async {
        let pair = Pair::new().await;
        let (near, mut far) = pair.stream().await;
        for size in [0, 1, 1400, MAX_DATAGRAM] {
            let got = loop {
                near.send_datagram(vec![5; size].into()).unwrap();
                let got = give_up(far.read_datagram()).await.map(Result::unwrap);
                // Other datagrams are earlier ones that were sent again.
                if let Some(got) = got.filter(|got| got.len() == size) {
                    break got;
                }
            };
            assert!(got.iter().all(|byte| *byte == 5), "{size}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_datagram_that_is_too_large_is_an_error_with_both_sizes() {
    in_time(async {
        let pair = Pair::new().await;
        assert!(pair.client.takes_datagrams());
        let (near, far) = pair.stream().await;
        let size = MAX_DATAGRAM + 1;
        let max = MAX_DATAGRAM;
        let refused = near.send_datagram(vec![0; size].into()).unwrap_err();
        assert_eq!(refused, SendDatagramError::TooLarge { size, max });
        assert_eq!(
            refused.to_string(),
            format!("a datagram of {size} bytes is too large; the largest has {max}")
        );
        drop(far);
        let mut near = near;
        near.reset(0);
        let gone = near.send_datagram(Bytes::new());
        assert_eq!(gone, Err(SendDatagramError::Closed));
    })
    .await;
}

#[tokio::test]
async fn a_stream_that_was_read_out_of_order_is_not_read_in_order() {
    in_time(async {
        let pair = Pair::new().await;
        let (mut near, mut far) = pair.stream().await;
        near.write_all(b"text").await.unwrap();
        near.shutdown().await.unwrap();
        let chunk = far.read_chunk_unordered(100).await.unwrap().unwrap();
        assert_eq!((chunk.offset, &chunk.bytes[..]), (1, &b"text"[..]));
        assert_eq!(far.read_chunk(100).await, Err(ReadError::Unordered));
        assert_eq!(
            far.read_u8().await.unwrap_err().kind(),
            io::ErrorKind::InvalidInput
        );
        assert_eq!(far.read_chunk_unordered(100).await, Ok(None));
    })
    .await;
}
