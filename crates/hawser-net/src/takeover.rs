//! Takeover of a process by its successor: the listening sockets pass to the successor, which
//! passes connections and datagrams of the predecessor's sessions back.
//!
//! The *predecessor* keeps its sessions until they end; keys, ledgers and counters never leave it.
//! The *successor* has the ports. It passes connections that join a session which it does not have,
//! and datagrams under a key that it does not know, to the predecessor.
//!
//! Both talk over a pair of connected sockets that preserve message boundaries; a message may carry
//! a descriptor (unix(7), `SCM_RIGHTS`). Only a process and the child that it has started itself
//! have such a pair, so they trust each other; still, an unreadable message ends the pair.

mod message;
mod pipe;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::BytesMut;
use hawser_sctp::Local;
use hawser_wire::{JoinOffer, JoinPrelude};
use tokio::net::TcpStream;

use hawser_link::bind;
pub use message::{Datagrams, Join, Left, Message, Offer, PortOf};
pub use pipe::{Pipe, pair};

/// The channel by which a gateway passes connections and datagrams to its predecessor. They are
/// lost, as on any network, if the pair of sockets is full.
#[derive(Clone, Debug)]
pub struct ToPredecessor {
    pipe: Arc<Pipe>,
    is_gone: Arc<AtomicBool>,
    port: PortOf,
}

impl ToPredecessor {
    /// Uses the successor's end of a pair.
    pub fn new(pipe: Arc<Pipe>) -> Self {
        Self {
            pipe,
            is_gone: Arc::default(),
            port: PortOf::default(),
        }
    }

    /// Sets the port at which the connections and datagrams arrive.
    #[must_use]
    pub fn at(self, port: PortOf) -> Self {
        Self { port, ..self }
    }

    /// Records that the predecessor has ended: it has no sessions any more.
    pub fn note_gone(&self) {
        self.is_gone.store(true, Ordering::Relaxed);
    }

    /// Returns whether the predecessor still runs, as far as known.
    pub fn is_there(&self) -> bool {
        !self.is_gone.load(Ordering::Relaxed)
    }

    /// Passes on a connection that joins a session unknown here, and that has sent only `prelude`
    /// so far.
    ///
    /// # Errors
    /// The predecessor is gone, or cannot take more now.
    pub(crate) fn pass_join(&self, stream: TcpStream, prelude: &JoinPrelude) -> io::Result<()> {
        let (port, said) = (self.port, prelude.encode());
        self.pass(stream, &Message::Join(Join { port, said }))
    }

    /// Passes on a connection that a gateway has begun for a session unknown here, and that has
    /// sent only `offer` so far.
    ///
    /// # Errors
    /// The predecessor is gone, or cannot take more now.
    pub(crate) fn pass_offer(&self, stream: TcpStream, offer: &JoinOffer) -> io::Result<()> {
        self.pass(stream, &Message::Offer(Offer(offer.encode())))
    }

    fn pass(&self, stream: TcpStream, message: &Message) -> io::Result<()> {
        let stream = stream.into_std()?;
        self.pipe.try_send(message, Some(stream.as_fd()))
    }

    /// Passes on datagrams that no key here can decrypt.
    pub(crate) fn pass_datagrams(&self, local: Local, datagrams: Vec<(SocketAddr, BytesMut)>) {
        if datagrams.is_empty() || !self.is_there() {
            return;
        }
        for message in Message::carrying(local, datagrams) {
            if let Err(error) = self.pipe.try_send(&message, None) {
                tracing::debug!(%error, "cannot pass datagrams to the predecessor");
            }
        }
    }
}

/// Converts a connection that was handed over to a tokio stream.
///
/// # Errors
/// The socket is not a TCP connection, or the system refuses.
pub(crate) fn connection(socket: OwnedFd) -> io::Result<TcpStream> {
    bind::check_tcp(socket.as_fd())?;
    TcpStream::from_std(socket.into())
}

#[cfg(test)]
mod tests;
