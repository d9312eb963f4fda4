//! What file transfer needs of a stream.

use std::future::Future;
use std::io;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

/// The receiving half of a stream that hands out chunks as they come, by any channel, in any order.
///
/// A sending half, and the way back, need no trait of their own: they are tokio's `AsyncRead` and
/// `AsyncWrite`.
pub trait UnorderedRead {
    /// The next chunk with its offset in the stream.
    ///
    /// `None` once every byte up to the end of the stream was handed out. Chunks may overlap those
    /// handed out before, must not be empty, and hold the same byte at the same offset every time.
    ///
    /// Must be cancel-safe: a future dropped before it is ready has taken no chunk.
    fn read_chunk(&mut self) -> impl Future<Output = io::Result<Option<(u64, Bytes)>>> + Send;
}

impl<T: UnorderedRead + Send + ?Sized> UnorderedRead for &mut T {
    fn read_chunk(&mut self) -> impl Future<Output = io::Result<Option<(u64, Bytes)>>> + Send {
        (**self).read_chunk()
    }
}

/// An ordered stream, such as one TCP connection, seen as an unordered one.
#[derive(Debug)]
pub struct Ordered<R> {
    inner: R,
    offset: u64,
    buffer: BytesMut,
}

impl<R> Ordered<R> {
    /// Reads from `inner`, whose next byte is the stream's first.
    pub fn new(inner: R) -> Self {
        Self {
            inner,
            offset: 0,
            buffer: BytesMut::new(),
        }
    }
}

impl<R: AsyncRead + Unpin + Send> UnorderedRead for Ordered<R> {
    async fn read_chunk(&mut self) -> io::Result<Option<(u64, Bytes)>> {
        self.buffer.reserve(CHUNK_BYTES);
        if self.inner.read_buf(&mut self.buffer).await? == 0 {
            return Ok(None);
        }
        let offset = self.offset;
        let chunk = self.buffer.split().freeze();
        self.offset += chunk.len() as u64;
        Ok(Some((offset, chunk)))
    }
}

const CHUNK_BYTES: usize = 64 << 10;
