//! From a process to the one that takes its place: its listening sockets go over, and what comes
//! for its sessions afterwards comes back.
//!
//! The *predecessor* keeps its sessions until they end; keys, ledgers and counters never leave it.
//! The *successor* has the ports. A connection that joins a session which the successor does not
//! have, and a datagram under a key that it does not know, are the predecessor's.
//!
//! Both talk over a pair of connected sockets that keep the bounds of messages; a message may bring
//! a descriptor along (unix(7), `SCM_RIGHTS`). Only a process and the child that it has started
//! itself have such a pair, so neither distrusts the other; still, what can't be read ends the
//! pair.

mod inherited;
mod message;
mod pipe;
mod sockets;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::BytesMut;
use hawser_sctp::Local;
use hawser_wire::{JoinOffer, JoinPrelude};
use tokio::net::TcpStream;

use crate::bind;
pub(crate) use inherited::{has_on_link, on_links_at, take_on_link, take_tcp};
pub use inherited::{let_go, take_listener};
pub use message::{Datagrams, Join, Left, Message, Offer, PortOf};
pub use pipe::{Pipe, pair};
pub use sockets::listening;

/// Keeps listening sockets of the predecessor for whoever is about to listen where they do.
pub fn inherit(socket: OwnedFd) {
    inherited::keep(socket);
}

/// Where a gateway sends what is its predecessor's. Whatever does not fit into the pair now is
/// lost, as on any network.
#[derive(Clone, Debug)]
pub struct ToPredecessor {
    pipe: Arc<Pipe>,
    is_gone: Arc<AtomicBool>,
    port: PortOf,
}

impl ToPredecessor {
    /// By the successor's end of a pair.
    pub fn new(pipe: Arc<Pipe>) -> Self {
        Self {
            pipe,
            is_gone: Arc::default(),
            port: PortOf::default(),
        }
    }

    /// Likewise of what comes to this one's port.
    #[must_use]
    pub fn at(self, port: PortOf) -> Self {
        Self { port, ..self }
    }

    /// The predecessor has ended: nothing is its any more.
    pub fn note_gone(&self) {
        self.is_gone.store(true, Ordering::Relaxed);
    }

    /// Whether it still runs, as far as is known.
    pub fn is_there(&self) -> bool {
        !self.is_gone.load(Ordering::Relaxed)
    }

    /// Hands over a connection that joins a session which is not known here, and that has said so
    /// far no more than `prelude`.
    ///
    /// # Errors
    /// That the predecessor is gone, or takes no more now.
    pub(crate) fn pass_join(&self, stream: TcpStream, prelude: &JoinPrelude) -> io::Result<()> {
        let (port, said) = (self.port, prelude.encode());
        self.pass(stream, &Message::Join(Join { port, said }))
    }

    /// Likewise one that a gateway has begun for a session which is not known here, and that has
    /// said no more than `offer`.
    ///
    /// # Errors
    /// That the predecessor is gone, or takes no more now.
    pub(crate) fn pass_offer(&self, stream: TcpStream, offer: &JoinOffer) -> io::Result<()> {
        self.pass(stream, &Message::Offer(Offer(offer.encode())))
    }

    fn pass(&self, stream: TcpStream, message: &Message) -> io::Result<()> {
        let stream = stream.into_std()?;
        self.pipe.try_send(message, Some(stream.as_fd()))
    }

    /// Hands over datagrams that no key here opens.
    pub(crate) fn pass_datagrams(&self, local: Local, datagrams: Vec<(SocketAddr, BytesMut)>) {
        if datagrams.is_empty() || !self.is_there() {
            return;
        }
        for message in Message::carrying(local, datagrams) {
            if let Err(error) = self.pipe.try_send(&message, None) {
                tracing::debug!(%error, "datagrams for the process before are lost");
            }
        }
    }
}

/// A connection that was handed over, as tokio has it.
///
/// # Errors
/// When it is no connection, or the system refuses.
pub(crate) fn connection(socket: OwnedFd) -> io::Result<TcpStream> {
    bind::check_tcp(socket.as_fd())?;
    TcpStream::from_std(socket.into())
}

#[cfg(test)]
mod tests;
