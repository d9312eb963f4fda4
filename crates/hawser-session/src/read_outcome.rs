use bytes::Bytes;

/// Outcome of reading from a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadOutcome {
    /// Some bytes, with the position of the first in the stream.
    Data(u64, Bytes),
    /// Nothing yet; [`Event::Readable`](crate::Event::Readable) tells when.
    Blocked,
    /// The peer has finished this direction and everything was read.
    End,
}
