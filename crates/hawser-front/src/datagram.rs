//! Datagrams: the interface of the proxy port to the transports of datagrams, which send them
//! straight out or over a gateway.
//!
//! A *port* stands for one UDP port of an application, which may send to any address; a *flow* is
//! such a port and one destination. Nothing here waits or retransmits: a datagram that can't be
//! sent at once is dropped, as a network would.

mod bonded;
mod buffer;
mod choice;
mod direct;
pub mod opening;
mod place;
mod questions;

use std::net::SocketAddr;
use std::task::{Context, Poll};

use tokio::io::ReadBuf;

use crate::connection::Origin;
use crate::destination::Destination;
use crate::transport::DialError;

pub(crate) use buffer::with_buffer;

pub use bonded::{BondLimits, BondPorts};
pub use choice::ChoicePorts;
pub use direct::{DirectLimits, DirectPorts};
pub use place::{Books, PlaceFlows, Placement, Target};

/// Opens UDP ports for applications.
pub trait DatagramPorts: Send + Sync + 'static {
    /// Opens a port for the application that `asker` describes. The port lives until it is dropped.
    ///
    /// # Errors
    /// The reason why no port can be opened.
    fn open(&self, asker: Origin) -> Result<Box<dyn DatagramPort>, DialError>;
}

/// One UDP port of an application, as the far ends see it.
pub trait DatagramPort: Send {
    /// Sends a datagram, at once if the destination is an address. Returns whether it was taken;
    /// otherwise it is lost.
    ///
    /// Poll [`DatagramPort::poll_receive`] afterwards: it completes longer work, such as lookups.
    fn send(&mut self, destination: &Destination, payload: &[u8]) -> bool;

    /// Sets whether datagrams to a destination from now on belong to a call.
    fn set_call(&mut self, _destination: &Destination, _is_call: bool) {}

    /// Receives a datagram and returns its source. Bytes that do not fit `buffer` are lost.
    fn poll_receive(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<SocketAddr>;
}
