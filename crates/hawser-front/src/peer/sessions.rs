use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use hawser_net::client::Client;
use hawser_net::identity::PublicKey;
use tokio::time::Instant;

use crate::bonded::{BondDialer, SessionDialer};

/// Sessions with peers.
pub trait Sessions: Send + Sync + 'static {
    /// Dials over a session; its streams keep the session for as long as they live.
    type Way: SessionDialer;

    /// The way to the peer with this key, which is at `address`, where a session with it runs;
    /// begins one where there is none. Never waits.
    fn way(&self, peer: PublicKey, address: IpAddr) -> Option<Self::Way>;

    /// A connection came about over one of them.
    fn on_opened(&self) {}
}

/// Sessions with peers, begun when a connection first wants them and closed when none has for a
/// while.
#[derive(Clone, Debug)]
pub struct PeerSessions {
    shared: Arc<Shared>,
}

struct Shared {
    start: Box<Start>,
    open: Mutex<BTreeMap<PublicKey, Session>>,
    /// Streams that came about.
    opened: AtomicU64,
}

type Start = dyn Fn(PublicKey, IpAddr) -> Option<Arc<Client>> + Send + Sync;

#[derive(Debug)]
struct Session {
    client: Arc<Client>,
    used: Instant,
}

impl PeerSessions {
    /// `start` begins to connect to the peer with a key at an address, where it can.
    pub fn new(
        start: impl Fn(PublicKey, IpAddr) -> Option<Arc<Client>> + Send + Sync + 'static,
    ) -> Self {
        let shared = Arc::new(Shared {
            start: Box::new(start),
            open: Mutex::default(),
            opened: AtomicU64::new(0),
        });
        tokio::spawn(close_idle(Arc::downgrade(&shared)));
        Self { shared }
    }

    /// The clients, by the keys of the peers.
    pub fn clients(&self) -> BTreeMap<PublicKey, Arc<Client>> {
        let open = self.shared.lock();
        let client = |(peer, session): (&PublicKey, &Session)| (*peer, Arc::clone(&session.client));
        open.iter().map(client).collect()
    }

    /// Connections that came about over them so far.
    pub fn opened(&self) -> u64 {
        self.shared.opened.load(Ordering::Relaxed)
    }

    /// Ends all of them in order, within `patience`.
    pub async fn close(&self, patience: Duration) {
        let open = std::mem::take(&mut *self.shared.lock());
        let closing = open.values().map(|session| session.client.close(patience));
        futures_util::future::join_all(closing).await;
    }
}

impl Sessions for PeerSessions {
    type Way = BondDialer;

    fn way(&self, peer: PublicKey, address: IpAddr) -> Option<BondDialer> {
        let now = Instant::now();
        let mut open = self.shared.lock();
        if !open.contains_key(&peer) {
            if open.len() >= MAX_SESSIONS {
                let idle = open.iter().filter(|(_, session)| !session.is_used());
                let eldest = *idle.min_by_key(|(_, session)| session.used)?.0;
                open.remove(&eldest).into_iter().for_each(Session::close);
            }
            let client = (self.shared.start)(peer, address)?;
            open.insert(peer, Session { client, used: now });
        }
        let session = open.get_mut(&peer).filter(|it| it.client.is_admitted())?;
        session.used = now;
        Some(BondDialer::new(Arc::clone(&session.client)))
    }

    fn on_opened(&self) {
        self.shared.opened.fetch_add(1, Ordering::Relaxed);
    }
}

impl Session {
    /// True if a stream lives in it, or one is being opened.
    fn is_used(&self) -> bool {
        Arc::strong_count(&self.client) > 1
    }

    fn close(self) {
        tokio::spawn(async move { self.client.close(CLOSE_PATIENCE).await });
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<PublicKey, Session>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("open", &self.open)
            .finish_non_exhaustive()
    }
}

/// Closes sessions that no connection uses any more, for as long as the sessions are there.
async fn close_idle(shared: Weak<Shared>) {
    let mut ticks = tokio::time::interval(LOOK_EVERY);
    loop {
        ticks.tick().await;
        let Some(shared) = shared.upgrade() else {
            return;
        };
        let mut open = shared.lock();
        let is_idle = |session: &Session| !session.is_used() && session.used.elapsed() > IDLE_AFTER;
        let idle: Vec<PublicKey> = open
            .iter()
            .filter(|(_, session)| is_idle(session))
            .map(|(peer, _)| *peer)
            .collect();
        for peer in idle {
            open.remove(&peer).into_iter().for_each(Session::close);
        }
    }
}

const MAX_SESSIONS: usize = 16;
const IDLE_AFTER: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_secs(15);
const CLOSE_PATIENCE: Duration = Duration::from_secs(3);
