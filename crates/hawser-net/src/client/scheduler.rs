//! The policies that place a client's chunks and packets.

use hawser_sched::chunk::ChunkPolicy;
use hawser_sched::packet::PacketPolicy;

use super::Client;
use super::shared::ClientState;
use crate::driver::Driver;

impl Client {
    /// Places bulk chunks by `policy` from now on, in the running sessions and in later ones. A
    /// gateway that follows its clients places its chunks by `policy`, too.
    pub fn set_scheduler(&self, policy: ChunkPolicy) {
        self.shared.scheduler.send_replace(policy);
        for driver in self.shared.sessions() {
            self.shared.tell_scheduler(&driver);
        }
    }

    /// Places packets by `policy` from now on, in the running sessions and in later ones. The
    /// gateway places its packets by its own policy.
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

impl ClientState {
    /// Tells a session the current policy.
    pub(super) fn tell_scheduler(&self, driver: &Driver) {
        let policy = *self.scheduler.borrow();
        driver.with(|session, now| session.set_scheduler(now, policy));
    }
}
