//! The transport of a client's chunks.

use hawser_session::TransportChoice;

use super::Client;

impl Client {
    /// Sets the transport of chunks, both ways, in the running sessions and in later ones.
    pub fn set_transport(&self, transport: TransportChoice) {
        self.shared.transport.send_replace(transport);
        for driver in self.shared.sessions() {
            driver.with(|session, now| session.set_transport(now, transport));
        }
    }

    /// The transport that was configured.
    pub fn transport(&self) -> TransportChoice {
        *self.shared.transport.borrow()
    }

    /// Why there is no association though one is wanted; `None` while all is well.
    pub fn association_problem(&self) -> Option<String> {
        self.shared.association_problem.borrow().clone()
    }
}
