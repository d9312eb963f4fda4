//! Lets one of several connections at once begin the session with their server.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;

/// Locks by server: of several connections at once, the holder of the lock begins the session.
#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<BTreeMap<SocketAddr, Turn>>);

pub(super) type Turn = Arc<tokio::sync::Mutex<()>>;

impl Turns {
    /// Returns the lock for a server; its holder has the turn.
    pub(super) fn of(&self, at: SocketAddr) -> Turn {
        let mut turns = self.0.lock();
        turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        Arc::clone(turns.entry(at).or_default())
    }
}
