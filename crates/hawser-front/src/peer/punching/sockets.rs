//! Sockets that send to an address repeatedly, so that NATs admit packets from it.

use std::net::SocketAddr;
use std::time::Duration;

use hawser_net::client::Client;
use hawser_net::gateway::Gateway;

/// UDP sockets of associations.
pub(super) trait Sockets: Send + Sync {
    /// Sends a datagram that is not sealed from each socket that may reach the address.
    fn send(&self, to: SocketAddr, bytes: &[u8]);
}

impl Sockets for Client {
    fn send(&self, to: SocketAddr, bytes: &[u8]) {
        self.send_unsealed(to, bytes);
    }
}

impl Sockets for Gateway {
    fn send(&self, to: SocketAddr, bytes: &[u8]) {
        self.send_unsealed(to, bytes);
    }
}

/// Returns the pause after `turn` earlier sends to the same addresses.
pub(super) fn pause_after(turn: u32) -> Duration {
    if turn < QUICK_TURNS { SOON } else { KEEP }
}

/// Number of sends in quick turn, while the first packets of an association are in flight.
const QUICK_TURNS: u32 = 20;
pub(super) const SOON: Duration = Duration::from_millis(250);
/// NATs forget UDP flows after 30 s at the soonest (RFC 4787 asks for 120 s).
const KEEP: Duration = Duration::from_secs(15);
