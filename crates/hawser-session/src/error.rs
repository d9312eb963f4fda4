use hawser_types::{ChannelId, RecordNumber, StreamId};
use hawser_wire::Malformed;

/// Reason for ending the session, or one of the peer's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PeerFault {
    /// Bytes that do not follow the protocol.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// Well-formed, but not what a correct peer would send.
    #[error("peer misbehaved: {0}")]
    Misbehaved(Misbehaviour),
}

/// Something that a correct peer would not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Misbehaviour {
    /// It sent more than its credit allows.
    #[error("{0} was sent beyond its credit")]
    CreditExceeded(StreamId),
    /// A chunk overlaps another one without being it.
    #[error("chunks of {0} overlap")]
    Overlap(StreamId),
    /// Data lies beyond the end that was announced, or a second end differs from the first.
    #[error("{0} goes on beyond its end")]
    BeyondEnd(StreamId),
    /// More streams than allowed, or numbers that make the bookkeeping grow.
    #[error("{0} exceeds the number of streams allowed")]
    TooManyStreams(StreamId),
    /// Data for a stream that only this side could have opened, and has not.
    #[error("{0} was never opened")]
    NotOpened(StreamId),
    /// More records are acknowledged than were sent.
    #[error("records are acknowledged that were not sent")]
    AckOfUnsent,
    /// A command that this side of a session never receives.
    #[error("a command came that is not for this side")]
    WrongSide,
    /// Another command came before the hello.
    #[error("a command came before the hello")]
    NoHello,
    /// A record's number came a second time.
    #[error("{1} came twice on {0}")]
    NumberRepeated(ChannelId, RecordNumber),
    /// A record's number is further ahead of the first missing one than a correct peer's can be.
    #[error("{1} on {0} is too far ahead of what came")]
    NumberTooFar(ChannelId, RecordNumber),
    /// A chunk lies in a record that may get lost.
    #[error("a chunk came on {0} in a record without a number")]
    ChunkWithoutNumber(ChannelId),
    /// An association is to begin under a number that was used before.
    #[error("{0} was used before")]
    NumberUsed(ChannelId),
    /// An association is to begin under a number that was not granted.
    #[error("{0} was never granted")]
    NumberNotGranted(ChannelId),
    /// A second hello, or another command that can come only once.
    #[error("a command came twice that can come only once")]
    Repeated,
}

/// A stream could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// As many streams are open as the peer allows.
    #[error("{0} streams are open, as many as the peer allows")]
    TooManyStreams(u64),
    /// The metadata is longer than the protocol allows.
    #[error("metadata of {0} bytes; allowed are {max}", max = hawser_wire::MAX_OPEN_METADATA)]
    MetadataTooLong(usize),
    /// The session is ending or has ended.
    #[error("the session has ended")]
    SessionClosed,
}

/// A stream can't be written to or read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// The stream ended long ago or never was.
    #[error("{0} is not open")]
    Unknown(StreamId),
    /// One end reset the stream.
    #[error("the stream was reset with code {0}")]
    Reset(u32),
    /// This direction was finished before.
    #[error("this direction of the stream is finished")]
    Finished,
    /// The session ended.
    #[error("the session has ended")]
    SessionClosed,
    /// The metadata of the answer is longer than the protocol allows.
    #[error("metadata of {0} bytes; allowed are {max}", max = hawser_wire::MAX_OPEN_METADATA)]
    MetadataTooLong(usize),
}

/// Reason for refusing a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DatagramError {
    /// The peer's version does not know datagrams, or has not said that it does.
    #[error("the peer takes no datagrams")]
    NotTaken,
    /// Larger than a datagram may be.
    #[error("a datagram of {size} bytes is too large; the largest has {max}")]
    TooLarge {
        /// Its bytes.
        size: usize,
        /// The bytes of the largest one: [`MAX_DATAGRAM`](hawser_wire::MAX_DATAGRAM).
        max: usize,
    },
    /// The stream that it belongs to is not there.
    #[error(transparent)]
    Stream(#[from] StreamError),
}
