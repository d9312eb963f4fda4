//! The reserved port of a host without Hawser.

use std::io::{self, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde::Serialize;
use socket2::{Domain, SockRef, Socket, Type};

use super::hosts::PEER;
use crate::netns::NetNs;
use crate::topology::Lab;

/// Answers to connections to the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Answer {
    /// No answer.
    Silence,
    /// It is refused.
    Refusal,
    /// Another server than Hawser answers, as portals do.
    Stranger,
}

impl Answer {
    pub(super) const ALL: [Self; 3] = [Self::Silence, Self::Refusal, Self::Stranger];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Silence => "silent",
            Self::Refusal => "refuses",
            Self::Stranger => "is a stranger's",
        }
    }
}

/// The port, which answers so until this is dropped.
pub(super) struct Port<'a> {
    lab: &'a Lab,
    kind: Kind,
    /// The counter before.
    before: u64,
}

enum Kind {
    /// The kernel drops what comes while the queue of those to be accepted is full.
    Silent {
        _listener: TcpListener,
        _queue: Vec<TcpStream>,
    },
    Refusing,
    Stranger(Stranger),
}

struct Stranger {
    listener: TcpListener,
    seen: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl<'a> Port<'a> {
    pub(super) fn open(lab: &'a Lab, answer: Answer) -> io::Result<Self> {
        let kind = match answer {
            Answer::Silence => lab.server().run(silent)?,
            Answer::Refusal => Kind::Refusing,
            Answer::Stranger => Kind::Stranger(lab.server().run(Stranger::start)?),
        };
        let mut port = Self {
            lab,
            kind,
            before: 0,
        };
        port.before = port.counted()?;
        Ok(port)
    }

    /// Attempts to connect to it so far; of an attempt at the silent one, each repetition.
    pub(super) fn attempts(&self) -> io::Result<u64> {
        Ok(self.counted()? - self.before)
    }

    fn counted(&self) -> io::Result<u64> {
        match &self.kind {
            Kind::Silent { .. } => {
                counter(self.lab.server(), "netstat", "TcpExt:", "ListenOverflows")
            }
            // Nothing else is refused to the client.
            Kind::Refusing => counter(self.lab.client(), "snmp", "Tcp:", "AttemptFails"),
            Kind::Stranger(stranger) => Ok(stranger.seen.load(Ordering::Relaxed)),
        }
    }
}

/// To be called in the server's namespace.
fn silent() -> io::Result<Kind> {
    let listener = listen(0)?;
    let here = SocketAddrV4::new(Ipv4Addr::LOCALHOST, PEER.port()).into();
    let mut queue = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&here, FULL) {
        queue.push(stream);
        if queue.len() > MAX_QUEUE {
            return Err(io::Error::other("the silent port takes everyone"));
        }
    }
    Ok(Kind::Silent {
        _listener: listener,
        _queue: queue,
    })
}

fn listen(backlog: i32) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.bind(&SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, PEER.port()).into())?;
    socket.listen(backlog)?;
    Ok(socket.into())
}

impl Stranger {
    /// To be called in the server's namespace.
    fn start() -> io::Result<Self> {
        let listener = listen(128)?;
        let accepting = listener.try_clone()?;
        let seen = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&seen);
        let thread = std::thread::spawn(move || {
            while let Ok((mut stream, _)) = accepting.accept() {
                count.fetch_add(1, Ordering::Relaxed);
                // Who has gone already needs no answer.
                let _ = stream.write_all(b"HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n");
            }
        });
        Ok(Self {
            listener,
            seen,
            thread: Some(thread),
        })
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        // Ends the wait for the next one.
        let _ = SockRef::from(&self.listener).shutdown(Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A counter of a host's kernel.
fn counter(host: &NetNs, file: &str, protocol: &str, name: &str) -> io::Result<u64> {
    let path = format!("/proc/thread-self/net/{file}");
    let text = host.run(|| std::fs::read_to_string(path))?;
    value(&text, protocol, name).ok_or_else(|| io::Error::other(format!("no counter {name}")))
}

/// A line of names stands above one of values.
fn value(text: &str, protocol: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter(|line| line.starts_with(protocol));
    let (names, values) = (lines.next()?, lines.next()?);
    let place = names.split_whitespace().position(|it| it == name)?;
    values.split_whitespace().nth(place)?.parse().ok()
}

/// When no answer has come on this machine for so long, the queue is full.
const FULL: Duration = Duration::from_millis(200);
const MAX_QUEUE: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_stands_below_its_name() {
        let text = "Ip: Forwarding\nIp: 2\nTcp: ActiveOpens AttemptFails\nTcp: 7 3\n";
        assert_eq!(value(text, "Tcp:", "AttemptFails"), Some(3));
        assert_eq!(value(text, "Tcp:", "Forwarding"), None);
        assert_eq!(value(text, "Udp:", "AttemptFails"), None);
        assert_eq!(value("Tcp: AttemptFails\n", "Tcp:", "AttemptFails"), None);
    }
}
