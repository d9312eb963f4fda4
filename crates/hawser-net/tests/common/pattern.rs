//! Data that reveals loss, duplication and changes.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// Number of bytes, and their CRC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Checked {
    pub(crate) length: u64,
    pub(crate) crc: u32,
}

/// Writes `length` bytes that depend on `seed`, ends the direction, and returns their checksum.
pub(crate) async fn write_pattern(
    stream: &mut (impl AsyncWrite + Unpin),
    seed: u64,
    length: u64,
) -> io::Result<Checked> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut crc = crc32fast::Hasher::new();
    let mut buffer = vec![0; 64 * 1024];
    let mut left = length;
    while left > 0 {
        for eight in buffer.chunks_exact_mut(8) {
            // Source: Marsaglia, Xorshift RNGs.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            eight.copy_from_slice(&state.to_le_bytes());
        }
        let now = buffer
            .len()
            .min(usize::try_from(left).unwrap_or(usize::MAX));
        crc.update(&buffer[..now]);
        stream.write_all(&buffer[..now]).await?;
        left -= now as u64;
    }
    stream.shutdown().await?;
    let crc = crc.finalize();
    Ok(Checked { length, crc })
}

/// Reads to the end.
pub(crate) async fn read_checked(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Checked> {
    let mut crc = crc32fast::Hasher::new();
    let mut buffer = vec![0; 64 * 1024];
    let mut length = 0;
    loop {
        match stream.read(&mut buffer).await? {
            0 => break,
            n => {
                crc.update(&buffer[..n]);
                length += n as u64;
            }
        }
    }
    let crc = crc.finalize();
    Ok(Checked { length, crc })
}
