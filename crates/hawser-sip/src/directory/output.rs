//! What a directory has its owner do, and what it has counted.

use std::net::SocketAddr;

use bytes::Bytes;

use crate::transaction::Flow;

/// What its owner has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send a datagram.
    Datagram {
        /// The number of the socket.
        socket: u32,
        /// Whom it is for.
        to: SocketAddr,
        /// A message.
        bytes: Bytes,
    },
    /// Connect to a host by TCP. What is written to the stream before it is open waits for that.
    Connect {
        /// The stream's flow.
        flow: Flow,
        /// The host.
        to: SocketAddr,
    },
    /// Write to a stream.
    Stream {
        /// The stream's flow.
        flow: Flow,
        /// A message, or the answer to a ping.
        bytes: Bytes,
    },
    /// Close a stream once what was written is sent.
    Close {
        /// The stream's flow.
        flow: Flow,
    },
}

/// What has happened since the beginning, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectoryCounts {
    /// Requests that were let in.
    pub requests: u64,
    /// Requests and answers that came too often from one sender, or all together.
    pub over_limit: u64,
    /// What was no message.
    pub malformed: u64,
    /// REGISTER and SUBSCRIBE that were asked for a proof of the password, or refused.
    pub not_admitted: u64,
    /// REGISTER that were admitted.
    pub registers: u64,
    /// SUBSCRIBE to bindings that were admitted.
    pub subscribes: u64,
    /// Requests that were forwarded.
    pub forwarded: u64,
    /// Streams that were refused because there were too many.
    pub streams_refused: u64,
}
