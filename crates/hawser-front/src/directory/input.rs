//! Inputs of a directory.

use std::net::SocketAddr;

use bytes::Bytes;
use hawser_sip::fields::Transport;
use hawser_sip::transaction::Flow;
use tokio::net::TcpStream;

/// An input of a directory.
pub(super) enum Input {
    Datagram {
        socket: u32,
        source: SocketAddr,
        bytes: Bytes,
    },
    Connection {
        stream: TcpStream,
        transport: Transport,
        source: SocketAddr,
    },
    Bytes {
        flow: Flow,
        bytes: Bytes,
    },
    Closed {
        flow: Flow,
    },
}
