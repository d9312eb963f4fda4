//! The policy that places what a client sends.

use hawser_sched::chunk::ChunkPolicy;
use hawser_sched::packet::PacketPolicy;

use super::Client;
use super::shared::Shared;
use crate::driver::Driver;

impl Client {
    /// Places bulk chunks by `policy` from now on, in the sessions that run and in later ones. The
    /// gateway does so for what it sends, if it follows its clients.
    pub fn set_scheduler(&self, policy: ChunkPolicy) {
        self.shared.scheduler.send_replace(policy);
        for driver in self.shared.sessions() {
            self.shared.tell_scheduler(&driver);
        }
    }

    /// Places packets by `policy` from now on, in the sessions that run and in later ones. What the
    /// gateway sends goes by the gateway's own.
    pub fn set_packet_scheduler(&self, policy: PacketPolicy) {
        self.shared.packet_scheduler.send_replace(policy);
        for driver in self.shared.sessions() {
            driver.set_packet_scheduler(policy);
        }
    }

    /// The policy that places bulk chunks.
    pub fn scheduler(&self) -> ChunkPolicy {
        *self.shared.scheduler.borrow()
    }
}

impl Shared {
    /// Tells a session which policy holds now.
    pub(super) fn tell_scheduler(&self, driver: &Driver) {
        let policy = *self.scheduler.borrow();
        driver.with(|session, now| session.set_scheduler(now, policy));
    }
}
