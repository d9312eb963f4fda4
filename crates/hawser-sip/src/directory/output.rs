//! Actions of a directory for its owner, and its counters.

use std::net::SocketAddr;

use bytes::Bytes;

use crate::transaction::Flow;

/// Action for the owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send a datagram.
    Datagram {
        /// The number of the socket.
        socket: u32,
        /// Destination.
        to: SocketAddr,
        /// The message.
        bytes: Bytes,
    },
    /// Connect to a host by TCP. Bytes for the stream wait until it is open.
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
    /// Close a stream after all written bytes are sent.
    Close {
        /// The stream's flow.
        flow: Flow,
    },
}

/// Counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectoryCounts {
    /// Admitted requests.
    pub requests: u64,
    /// Requests and responses over the limit of one sender or of all together.
    pub over_limit: u64,
    /// Bytes that were no message.
    pub malformed: u64,
    /// REGISTER and SUBSCRIBE that were challenged or refused.
    pub not_admitted: u64,
    /// Admitted REGISTER.
    pub registers: u64,
    /// Admitted SUBSCRIBE to bindings.
    pub subscribes: u64,
    /// Forwarded requests.
    pub forwarded: u64,
    /// Streams refused because of their number.
    pub streams_refused: u64,
}
