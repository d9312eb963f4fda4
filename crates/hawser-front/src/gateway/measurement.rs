//! The gateway's end of the measurements of `hawser bench`.
//!
//! A measurement has no buffers of its own: all measurements send from one shared piece of memory,
//! and received bytes are counted in place.

use std::future::poll_fn;
use std::sync::LazyLock;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::AsyncWriteExt as _;
use tokio::time::timeout;

use crate::bonded::Bonded;
use crate::incoming::IncomingStream as _;
use crate::transport::{ByteStream as _, DialError};

/// Reads the stream to its end and answers with the number of bytes.
pub(super) async fn swallow(mut stream: Bonded) {
    stream.accept();
    let mut count: u64 = 0;
    loop {
        match unless_idle(poll_fn(|cx| stream.poll_read_bytes(cx, MAX_READ))).await {
            Some(Ok(bytes)) if bytes.is_empty() => break,
            Some(Ok(bytes)) => count += bytes.len() as u64,
            Some(Err(_)) | None => return,
        }
    }
    let answer = count.to_be_bytes();
    if let Some(Ok(())) = unless_idle(stream.write_all(&answer)).await {
        finish(stream).await;
    }
}

/// Sends `size` bytes, unless the client ends the stream before.
pub(super) async fn pour(mut stream: Bonded, size: u64) {
    if size > MAX_SOURCE {
        stream.refuse(DialError::LimitReached);
        return;
    }
    stream.accept();
    let mut left = size;
    while left > 0 {
        let length = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
        let mut piece = noise().slice(..length);
        while !piece.is_empty() {
            let written = unless_idle(poll_fn(|cx| stream.poll_write_bytes(cx, &mut piece)));
            if !matches!(written.await, Some(Ok(_))) {
                return;
            }
        }
        left -= length as u64;
    }
    finish(stream).await;
}

/// Ends a stream in order, and waits until its client has received all of it.
pub(super) async fn finish(mut stream: Bonded) {
    if let Some(Ok(())) = unless_idle(stream.shutdown()).await {
        let _ = unless_idle(stream.get_mut().acknowledged()).await;
    }
}

/// Returns the result of `step`, or `None` if it takes longer than [`IDLE`]: a measurement without
/// progress must give its permit back.
async fn unless_idle<T>(step: impl Future<Output = T>) -> Option<T> {
    timeout(IDLE, step).await.ok()
}

/// Returns 256 KiB of incompressible bytes. They are made once in a process.
pub fn noise() -> &'static Bytes {
    static MADE: LazyLock<Bytes> = LazyLock::new(|| {
        let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
        let next = || {
            // xorshift64: the bytes need no pattern, and are no secret.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_be_bytes()
        };
        let words = std::iter::repeat_with(next).take(NOISE / 8);
        words.collect::<Vec<_>>().into_flattened().into()
    });
    &MADE
}

/// The most that a client may ask for at once.
pub const MAX_SOURCE: u64 = 1 << 36;
const NOISE: usize = 256 * 1024;
/// Bytes given to the session at once. It may copy them, even if the client stops reading.
const PIECE: usize = 64 * 1024;
/// As long as a session survives without links by default.
const IDLE: Duration = Duration::from_secs(60);
const MAX_READ: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_measurement_that_stands_still_has_an_end() {
        assert_eq!(unless_idle(std::future::ready(7)).await, Some(7));
        assert_eq!(unless_idle(std::future::pending::<()>()).await, None);
    }

    #[test]
    fn noise_is_made_once_and_shared() {
        let twice = [noise(), noise()].map(|it| it.slice(..1).as_ptr());
        assert_eq!(twice[0], twice[1]);
        assert_eq!(noise().len(), NOISE);
        let zeros = noise().iter().filter(|byte| **byte == 0).count();
        assert!(zeros < NOISE / 128, "{zeros}");
    }
}
