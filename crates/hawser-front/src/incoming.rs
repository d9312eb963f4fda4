//! Streams that clients open at a gateway.

use crate::transport::{ByteStream, DialError};

/// A stream that a client has opened and that is not accepted or refused yet.
pub trait IncomingStream: ByteStream {
    /// Returns the metadata of the stream's opening chunk: an encoded
    /// [`Destination`](crate::destination::Destination).
    fn open_metadata(&self) -> &[u8];

    /// Tells the client that the destination has accepted the connection; data may follow.
    fn accept(&mut self);

    /// Tells the client why there is no connection, and ends the stream.
    fn refuse(self, error: DialError);
}
