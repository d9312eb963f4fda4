//! The gateway's end of the measurements of `hawser bench`.

use hawser_front::bonded::Bonded;
use hawser_front::gateway::IncomingStream as _;
use hawser_front::transport::DialError;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// Reads to the end and answers with the number of bytes.
pub(crate) async fn swallow(mut stream: Bonded) {
    stream.accept();
    let mut buffer = vec![0; BUFFER];
    let mut count: u64 = 0;
    loop {
        match stream.read(&mut buffer).await {
            Ok(0) => break,
            Ok(n) => count += n as u64,
            Err(_) => return,
        }
    }
    if stream.write_all(&count.to_be_bytes()).await.is_ok() {
        finish(stream).await;
    }
}

/// Sends `size` bytes, for as long as the client wants them.
pub(crate) async fn pour(mut stream: Bonded, size: u64) {
    if size > MAX_SOURCE {
        stream.refuse(DialError::LimitReached);
        return;
    }
    stream.accept();
    let noise = noise();
    let mut left = size;
    while left > 0 {
        let piece = usize::try_from(left).unwrap_or(BUFFER).min(noise.len());
        match stream
            .write_all(noise.get(..piece).unwrap_or_default())
            .await
        {
            Ok(()) => left -= piece as u64,
            Err(_) => return,
        }
    }
    finish(stream).await;
}

pub(crate) async fn finish(mut stream: Bonded) {
    if stream.shutdown().await.is_ok() {
        let _ = stream.get_mut().acknowledged().await;
    }
}

/// Bytes that nothing on the way can make smaller.
pub(crate) fn noise() -> Vec<u8> {
    let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
    let next = || {
        // xorshift64: no secret, only no pattern.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_be_bytes()
    };
    std::iter::repeat_with(next)
        .flatten()
        .take(BUFFER)
        .collect()
}

/// The most that a client may ask for at once.
pub(crate) const MAX_SOURCE: u64 = 1 << 36;
const BUFFER: usize = 256 * 1024;
