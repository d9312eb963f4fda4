//! The sessions and connections that the old process still serves after a takeover.

use hawser_front::proxy::ProxyCounters;
use hawser_net::client::JoinPort;
use hawser_net::gateway::Gateway;

use super::machine::Machine;
use crate::Daemon;
use crate::proxy::by_name::ByName;
use crate::takeover::{Passed, Successor};

/// The parts that may have open connections.
pub(super) struct Rest<'a> {
    /// Counters of the proxy port.
    pub(super) proxy: &'a ProxyCounters,
    pub(super) machine: &'a Machine,
    /// The port at which the gateway may connect.
    pub(super) joins: Option<&'a JoinPort>,
    /// Sessions with hosts that are known by name.
    pub(super) by_name: Option<&'a ByName>,
}

impl Rest<'_> {
    /// Stops listening, and serves open connections until they end, the time limit is reached, or
    /// the daemon is asked to end.
    pub(super) async fn serve(self, successor: &Successor, daemon: &Daemon) {
        self.joins.into_iter().for_each(JoinPort::stop_listening);
        self.by_name.into_iter().for_each(ByName::retire);
        let peers = self.by_name.map(ByName::peers);
        let of_peers = || peers.as_ref().map_or(0, |it| it.open_count());
        let open = || self.proxy.snapshot().current + self.machine.open() + of_peers();
        let door = peers.as_ref().map(|it| it.door());
        let taking = take_passed(successor, self.joins, door);
        let asked = daemon.asked_to_end();
        successor.serve_rest(open, taking, asked).await;
    }
}

/// Takes connections and datagrams that the new process received for this one. Never returns.
async fn take_passed(successor: &Successor, joins: Option<&JoinPort>, door: Option<&Gateway>) {
    loop {
        let taken = match (successor.next().await, joins, door) {
            (Passed::Offer(connection, said), Some(port), _) => port.take_passed(connection, &said),
            (Passed::Join(connection, said), _, Some(door)) => door.take_join(connection, &said),
            (Passed::Datagrams(datagrams), _, Some(door)) => {
                door.take_datagrams(datagrams);
                Ok(())
            }
            // This process has no such port.
            _ => Ok(()),
        };
        if let Err(error) = taken {
            tracing::debug!(%error, "can't accept a connection from the new process");
        }
    }
}
