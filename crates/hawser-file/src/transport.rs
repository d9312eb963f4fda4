//! The stream of a transfer.

use std::future::Future;
use std::io;

use bytes::Bytes;

/// The receiving half of a stream that returns chunks in order of arrival, from any channel.
///
/// The sending half, and the opposite direction, use tokio's `AsyncRead` and `AsyncWrite`.
pub trait UnorderedRead {
    /// Returns the next chunk with its offset in the stream.
    ///
    /// `None` once every byte up to the end of the stream was returned. Chunks may overlap earlier
    /// ones, must not be empty, and have the same byte at the same offset every time.
    ///
    /// Must be cancel-safe: a future dropped before it is ready has taken no chunk.
    fn read_chunk(&mut self) -> impl Future<Output = io::Result<Option<(u64, Bytes)>>> + Send;
}

impl<T: UnorderedRead + Send + ?Sized> UnorderedRead for &mut T {
    fn read_chunk(&mut self) -> impl Future<Output = io::Result<Option<(u64, Bytes)>>> + Send {
        (**self).read_chunk()
    }
}
