//! Datagrams: what the proxy port asks of those who carry them, and how they go straight out or
//! over a gateway.
//!
//! A *port* stands for one UDP port of an application, which may send to any address; a *flow*
//! is such a port and one destination. Nothing here waits or repeats: what can't be sent at once is
//! dropped, as a network would.

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

/// Opens ports.
pub trait DatagramPorts: Send + Sync + 'static {
    /// A port for an application of which so much is known; it lives until it is dropped.
    ///
    /// # Errors
    /// Why there is none.
    fn open(&self, asker: Origin) -> Result<Box<dyn DatagramPort>, DialError>;
}

/// One UDP port of an application, as the far ends see it.
pub trait DatagramPort: Send {
    /// Sends a datagram, at once where the destination is an address. Whether it was taken;
    /// otherwise it is lost.
    ///
    /// [`DatagramPort::poll_receive`] is to be polled afterwards: it does what takes longer.
    fn send(&mut self, destination: &Destination, payload: &[u8]) -> bool;

    /// Says what goes to a destination from now on: datagrams of a call, or others.
    fn set_call(&mut self, _destination: &Destination, _is_call: bool) {}

    /// The next datagram that came, and who sent it. What does not fit `buffer` is lost.
    fn poll_receive(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<SocketAddr>;
}
