//! The monitored server, and requests to it.

use std::io;
use std::net::{SocketAddrV4, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use crate::output::print;

/// The server that is looked at.
pub(super) struct Site<'a> {
    pub(super) server: SocketAddrV4,
    pub(super) token: String,
    pub(super) is_over: &'a AtomicBool,
}

impl Site<'_> {
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    pub(super) fn connect(&self) -> io::Result<TcpStream> {
        self.connect_with(None)
    }

    /// Connects, with so much room for what is not read yet if it says so.
    pub(super) fn connect_with(&self, room: Option<usize>) -> io::Result<TcpStream> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        if let Some(room) = room {
            socket.set_recv_buffer_size(room)?;
        }
        socket.connect_timeout(&self.server.into(), PATIENCE)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        Ok(socket.into())
    }

    /// The head of a request, such as `GET /`, with the right token; `more` are whole lines.
    pub(super) fn head(&self, what: &str, more: &str) -> String {
        let (server, token) = (self.server, &self.token);
        head(what, &server.to_string(), token, more)
    }
}

pub(super) fn head(what: &str, host: &str, token: &str, more: &str) -> String {
    format!("{what} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n{more}\r\n")
}

/// The status in the first bytes of an answer.
pub(super) fn status(answer: &[u8]) -> Option<u16> {
    let text = answer.strip_prefix(b"HTTP/1.1 ")?.get(..3)?;
    std::str::from_utf8(text).ok()?.parse().ok()
}

pub(super) fn say_ready() -> anyhow::Result<()> {
    print(READY)
}

pub(super) const FEED: &str = "GET /api/v1/feed";

pub(super) const ASK: &str = "POST /api/v1/ask";

/// Time for an answer to come.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Printed when all clients are connected.
pub(in crate::watchers) const READY: &str = "ready";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answers_status_is_in_its_first_bytes() {
        assert_eq!(status(b"HTTP/1.1 503 Service"), Some(503));
        assert_eq!(status(b"HTTP/1.1 503"), Some(503));
        for other in [&b""[..], b"HTTP/1.1 50", b"HTTP/1.1 abc", b"SSH-2.0-x"] {
            assert_eq!(status(other), None, "{other:?}");
        }
    }
}
