//! Sends the packets of an endpoint: each by the socket of its place.

use std::sync::Arc;

use hawser_sctp::Transmit;
use hawser_session::seal::datagram::DatagramSealer;
use hawser_types::Instant;
use smallvec::SmallVec;

use super::socket::LinkSocket;

/// The sockets that packets may leave by.
pub(super) type Sockets = Arc<[Arc<LinkSocket>]>;

/// The sockets and the keys that packets leave with.
#[derive(Debug)]
pub(super) struct Outlet {
    pub(super) sealer: Option<DatagramSealer>,
    pub(super) sockets: Sockets,
    /// Sockets with gathered packets to send.
    pub(super) gathered: SmallVec<[Arc<LinkSocket>; 4]>,
}

impl Outlet {
    /// Gives a packet to the socket of its place, and lists that socket in `gathered`.
    pub(super) fn send(&mut self, now: Instant, transmit: &Transmit) {
        let mut sockets = self.sockets.iter();
        let Some(socket) = sockets.find(|socket| socket.local() == transmit.route.local) else {
            return;
        };
        socket.gather(now, transmit, self.sealer.as_mut());
        if !self.gathered.iter().any(|it| Arc::ptr_eq(it, socket)) {
            self.gathered.push(socket.clone());
        }
    }
}
