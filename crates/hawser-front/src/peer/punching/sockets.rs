//! Sockets that send to an address again and again, so that translators let in what comes from it.

use std::net::SocketAddr;
use std::time::Duration;

use hawser_net::client::Client;
use hawser_net::gateway::Gateway;

/// UDP sockets of associations.
pub(super) trait Sockets: Send + Sync {
    /// Sends a datagram that is not sealed from each of them that may lead there.
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

/// The pause after so many times that something was sent to the same addresses, the latest not
/// counted.
pub(super) fn pause_after(turn: u32) -> Duration {
    if turn < QUICK_TURNS { SOON } else { KEEP }
}

/// As long as the first packets of an association are on their way.
const QUICK_TURNS: u32 = 20;
pub(super) const SOON: Duration = Duration::from_millis(250);
/// Translators forget flows of UDP after 30 s at the soonest (RFC 4787 asks for 120 s).
const KEEP: Duration = Duration::from_secs(15);
