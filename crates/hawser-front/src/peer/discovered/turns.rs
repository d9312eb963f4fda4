//! Turns of connections that could all begin a session.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;

/// Of several connections to a server at once, one begins the session.
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
