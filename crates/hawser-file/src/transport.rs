//! The stream of a transfer.

use std::future::Future;
use std::io;

use bytes::Bytes;

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
