//! Errors of reading, writing and sending.

use std::io;

use hawser_session::{DatagramError, StreamError};

use crate::driver::{ConnectionError, Failure};

/// The inner error of an [`io::Error`] of kind `ConnectionReset`: the peer reset the stream, or its
/// own direction of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the peer reset the stream with code {code}")]
pub struct ResetByPeer {
    /// The peer's code; 0 when it gave none.
    pub code: u32,
}

/// The inner error of an [`io::Error`] of kind `BrokenPipe`: the peer stopped reading the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the peer stopped reading the stream with code {code}")]
pub struct StoppedByPeer {
    /// The peer's code; 0 when it gave none.
    pub code: u32,
}

/// Reason why a stream can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The peer reset the stream, or its own direction of it. Bytes that were not read are lost.
    #[error("the peer reset the stream with code {code}")]
    Reset {
        /// The peer's code; 0 when it gave none.
        code: u32,
    },
    /// The stream was read out of order before, and can't be read in order any more.
    #[error("the stream was read out of order, and cannot be read in order any more")]
    Unordered,
    /// The stream is over: this side reset it.
    #[error("the stream is over")]
    Closed,
    /// The connection is over.
    #[error("the connection is over: {0}")]
    ConnectionLost(#[from] ConnectionError),
}

/// Reason why a stream can't be written to, or why not everything arrives.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The peer has stopped reading. Bytes that the peer does not hold are dropped.
    #[error("the peer stopped reading the stream with code {code}")]
    Stopped {
        /// The peer's code; 0 when it gave none.
        code: u32,
    },
    /// The peer reset both directions of the stream.
    #[error("the peer reset the stream with code {code}")]
    Reset {
        /// The peer's code; 0 when it gave none.
        code: u32,
    },
    /// This side finished or reset the direction before.
    #[error("this direction of the stream is finished")]
    Finished,
    /// The stream is over: this side reset it.
    #[error("the stream is over")]
    Closed,
    /// The connection is over.
    #[error("the connection is over: {0}")]
    ConnectionLost(#[from] ConnectionError),
}

/// Reason why a datagram can't be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendDatagramError {
    /// The peer takes no datagrams, or has not said yet that it does.
    #[error("the peer takes no datagrams")]
    NotTaken,
    /// The datagram is larger than a datagram may be.
    #[error("a datagram of {size} bytes is too large; the largest has {max}")]
    TooLarge {
        /// The datagram's size in bytes.
        size: usize,
        /// The largest size in bytes.
        max: usize,
    },
    /// The datagram's stream is over.
    #[error("the stream is over")]
    Closed,
    /// The connection is over.
    #[error("the connection is over: {0}")]
    ConnectionLost(#[from] ConnectionError),
}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Reset(code) | Failure::Refused(StreamError::Reset(code)) => {
                Self::new(io::ErrorKind::ConnectionReset, ResetByPeer { code })
            }
            Failure::Stopped(code) => Self::new(io::ErrorKind::BrokenPipe, StoppedByPeer { code }),
            Failure::Ended(error) => Self::new(io::ErrorKind::ConnectionAborted, error),
            Failure::Over(error) => Self::new(io::ErrorKind::NotConnected, error),
            Failure::Refused(error @ StreamError::Finished) => {
                Self::new(io::ErrorKind::BrokenPipe, error)
            }
            Failure::Refused(error) => Self::new(io::ErrorKind::NotConnected, error),
        }
    }
}

impl From<Failure> for ReadError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Reset(code) | Failure::Refused(StreamError::Reset(code)) => {
                Self::Reset { code }
            }
            Failure::Ended(error) | Failure::Over(error) => Self::ConnectionLost(error),
            Failure::Stopped(_) | Failure::Refused(_) => Self::Closed,
        }
    }
}

impl From<Failure> for WriteError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Reset(code) => Self::Reset { code },
            Failure::Stopped(code) => Self::Stopped { code },
            Failure::Ended(error) | Failure::Over(error) => Self::ConnectionLost(error),
            Failure::Refused(StreamError::Finished) => Self::Finished,
            Failure::Refused(_) => Self::Closed,
        }
    }
}

impl SendDatagramError {
    /// `ended`: why the connection is over, if it is.
    pub(super) fn new(error: DatagramError, ended: Option<ConnectionError>) -> Self {
        match (error, ended) {
            (DatagramError::NotTaken, None) => Self::NotTaken,
            (DatagramError::TooLarge { size, max }, _) => Self::TooLarge { size, max },
            (_, Some(ended)) => Self::ConnectionLost(ended),
            _ => Self::Closed,
        }
    }
}

impl From<ReadError> for io::Error {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Reset { code } => Failure::Reset(code).into(),
            ReadError::Unordered => Self::new(io::ErrorKind::InvalidInput, error),
            ReadError::Closed => Self::new(io::ErrorKind::NotConnected, error),
            ReadError::ConnectionLost(ended) => Failure::Over(ended).into(),
        }
    }
}

impl From<WriteError> for io::Error {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Reset { code } => Failure::Reset(code).into(),
            WriteError::Stopped { code } => Failure::Stopped(code).into(),
            WriteError::Finished => Self::new(io::ErrorKind::BrokenPipe, error),
            WriteError::Closed => Self::new(io::ErrorKind::NotConnected, error),
            WriteError::ConnectionLost(ended) => Failure::Over(ended).into(),
        }
    }
}

impl From<SendDatagramError> for io::Error {
    fn from(error: SendDatagramError) -> Self {
        let kind = match error {
            SendDatagramError::NotTaken | SendDatagramError::TooLarge { .. } => {
                io::ErrorKind::InvalidInput
            }
            _ => io::ErrorKind::NotConnected,
        };
        Self::new(kind, error)
    }
}
