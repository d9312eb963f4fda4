use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hawser_keys::identity::PublicKey;
use hawser_net::client::Client;

use super::pool::SessionPool;
use crate::bonded::{BondDialer, SessionDialer};

/// Sessions with peers.
pub trait Sessions: Send + Sync + 'static {
    /// Dials over a session; its streams keep the session for as long as they live.
    type Session: SessionDialer;

    /// Returns a dialer to the peer with this key at `address`, if a session with the peer runs;
    /// begins a session if there is none. Never waits.
    fn way(&self, peer: PublicKey, address: IpAddr) -> Option<Self::Session>;

    /// As [`Self::way`], but also while the session is being made: dialing waits for the session.
    fn dialer(&self, peer: PublicKey, address: IpAddr) -> Option<Self::Session> {
        self.way(peer, address)
    }

    /// Notes that a connection was opened over one of the sessions.
    fn on_opened(&self) {}
}

/// Sessions with peers: begun on first use, and closed when idle.
#[derive(Clone)]
pub struct PeerSessions {
    start: Arc<Start>,
    pool: SessionPool<PublicKey>,
}

type Start = dyn Fn(PublicKey, IpAddr) -> Option<Arc<Client>> + Send + Sync;

impl PeerSessions {
    /// `start` begins to connect to the peer with a key at an address, if possible.
    pub fn new(
        start: impl Fn(PublicKey, IpAddr) -> Option<Arc<Client>> + Send + Sync + 'static,
    ) -> Self {
        Self {
            start: Arc::new(start),
            pool: SessionPool::new(),
        }
    }

    /// Returns the clients, by the keys of the peers.
    pub fn clients(&self) -> BTreeMap<PublicKey, Arc<Client>> {
        self.pool.clients()
    }

    /// Returns how many connections were opened over sessions so far.
    pub fn opened(&self) -> u64 {
        self.pool.opened()
    }

    /// Ends all sessions in order, within `patience`.
    pub async fn close(&self, patience: Duration) {
        self.pool.close(patience).await;
    }
}

impl Sessions for PeerSessions {
    type Session = BondDialer;

    fn way(&self, peer: PublicKey, address: IpAddr) -> Option<BondDialer> {
        self.pool.way(peer, || (self.start)(peer, address))
    }

    fn dialer(&self, peer: PublicKey, address: IpAddr) -> Option<BondDialer> {
        self.pool.dialer(peer, || (self.start)(peer, address))
    }

    fn on_opened(&self) {
        self.pool.note_opened();
    }
}

impl fmt::Debug for PeerSessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerSessions")
            .field("pool", &self.pool)
            .finish_non_exhaustive()
    }
}
