//! Sessions that connections share: begun on first use, and closed when idle.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use hawser_net::client::Client;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::bonded::BondDialer;

/// Sessions, keyed by their far ends. The pool lives until its last clone is dropped.
#[derive(Debug)]
pub(super) struct SessionPool<K> {
    shared: Arc<PoolState<K>>,
}

#[derive(Debug)]
struct PoolState<K> {
    open: Mutex<BTreeMap<K, Session>>,
    /// Number of streams that were opened so far.
    opened: AtomicU64,
}

#[derive(Debug)]
struct Session {
    client: Arc<Client>,
    used: Instant,
    /// Time until which a session that began on an existing connection is expected to be admitted.
    hopeful_until: Option<Instant>,
}

impl<K: Copy + Ord + Send + 'static> SessionPool<K> {
    /// Creates a pool without sessions.
    pub(super) fn new() -> Self {
        let shared = Arc::new(PoolState {
            open: Mutex::default(),
            opened: AtomicU64::new(0),
        });
        tokio::spawn(close_idle(Arc::downgrade(&shared)));
        Self { shared }
    }

    /// Returns a dialer for the session with `far`, whether the session runs or is being made.
    /// Begins a session with `start` if there is none. Never waits.
    pub(super) fn dialer(
        &self,
        far: K,
        start: impl FnOnce() -> Option<Arc<Client>>,
    ) -> Option<BondDialer> {
        self.client(far, start, |_| true).map(BondDialer::new)
    }

    /// As [`Self::dialer`], but `None` until the session runs and has admitted this host.
    pub(super) fn way(
        &self,
        far: K,
        start: impl FnOnce() -> Option<Arc<Client>>,
    ) -> Option<BondDialer> {
        self.client(far, start, Client::is_admitted)
            .map(BondDialer::new)
    }

    /// Returns whether there is a session with `far`, even one that is only being made.
    pub(super) fn has(&self, far: &K) -> bool {
        self.shared.open.lock().contains_key(far)
    }

    /// As [`Self::way`], but begins no session.
    pub(super) fn running(&self, far: K) -> Option<BondDialer> {
        let is_there = self.shared.open.lock().contains_key(&far);
        is_there.then(|| self.way(far, || None)).flatten()
    }

    fn client(
        &self,
        far: K,
        start: impl FnOnce() -> Option<Arc<Client>>,
        is_wanted: impl FnOnce(&Client) -> bool,
    ) -> Option<Arc<Client>> {
        let now = Instant::now();
        let mut open = self.shared.open.lock();
        if !open.contains_key(&far) {
            make_room(&mut open)?;
            open.insert(far, Session::new(start()?, now));
        }
        let session = open.get_mut(&far).filter(|it| is_wanted(&it.client))?;
        session.used = now;
        Some(Arc::clone(&session.client))
    }

    /// Returns a dialer for the session with `far` if the session runs, or has just begun on an
    /// existing connection. A session that still waits for its first connection may never get one.
    pub(super) fn hopeful(&self, far: K) -> Option<BondDialer> {
        hopeful(&mut self.shared.open.lock(), far, Instant::now())
    }

    /// Returns a dialer for a session that `start` begins on an existing connection. The new
    /// session replaces an earlier one that is not hopeful. If [`Self::hopeful`] finds a session,
    /// returns its dialer and begins none.
    pub(super) fn begin_on_connection(
        &self,
        far: K,
        start: impl FnOnce() -> Option<Arc<Client>>,
    ) -> Option<BondDialer> {
        let now = Instant::now();
        let mut open = self.shared.open.lock();
        if let Some(there) = hopeful(&mut open, far, now) {
            return Some(there);
        }
        open.remove(&far).into_iter().for_each(Session::close);
        make_room(&mut open)?;
        let client = start()?;
        let session = Session {
            hopeful_until: Some(now + HOPE),
            ..Session::new(Arc::clone(&client), now)
        };
        open.insert(far, session);
        Some(BondDialer::new(client))
    }

    /// Returns whether one more session could be begun now.
    pub(super) fn has_room(&self) -> bool {
        let open = self.shared.open.lock();
        open.len() < MAX_SESSIONS || open.values().any(|session| !session.is_used())
    }

    /// Returns the clients of all sessions, by far end.
    pub(super) fn clients(&self) -> BTreeMap<K, Arc<Client>> {
        let open = self.shared.open.lock();
        let client = |(far, session): (&K, &Session)| (*far, Arc::clone(&session.client));
        open.iter().map(client).collect()
    }

    /// Ends the session with `far`, if there is one, because it is of no use.
    pub(super) fn give_up(&self, far: K) {
        let given_up = self.shared.open.lock().remove(&far);
        given_up.into_iter().for_each(Session::close);
    }

    /// Counts a connection that was opened over one of the sessions.
    pub(super) fn note_opened(&self) {
        self.shared.opened.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how many connections were opened over sessions so far.
    pub(super) fn opened(&self) -> u64 {
        self.shared.opened.load(Ordering::Relaxed)
    }

    /// Ends all sessions in order, within `patience`.
    pub(super) async fn close(&self, patience: Duration) {
        let open = std::mem::take(&mut *self.shared.open.lock());
        let closing = open.values().map(|session| session.client.close(patience));
        futures_util::future::join_all(closing).await;
    }
}

impl<K> Clone for SessionPool<K> {
    fn clone(&self) -> Self {
        let shared = Arc::clone(&self.shared);
        Self { shared }
    }
}

impl Session {
    fn new(client: Arc<Client>, used: Instant) -> Self {
        Self {
            client,
            used,
            hopeful_until: None,
        }
    }

    /// True if the session has a stream, or a stream is being opened.
    fn is_used(&self) -> bool {
        Arc::strong_count(&self.client) > 1
    }

    fn close(self) {
        tokio::spawn(async move { self.client.close(CLOSE_PATIENCE).await });
    }
}

fn hopeful<K: Ord>(open: &mut BTreeMap<K, Session>, far: K, now: Instant) -> Option<BondDialer> {
    let is_hopeful = |it: &&mut Session| {
        it.client.is_admitted() || it.hopeful_until.is_some_and(|until| now < until)
    };
    let session = open.get_mut(&far).filter(is_hopeful)?;
    session.used = now;
    Some(BondDialer::new(Arc::clone(&session.client)))
}

/// Makes room for one more session by ending the least recently used one that is idle; `None` where
/// all are in use.
fn make_room<K: Copy + Ord>(open: &mut BTreeMap<K, Session>) -> Option<()> {
    if open.len() >= MAX_SESSIONS {
        let idle = open.iter().filter(|(_, session)| !session.is_used());
        let eldest = *idle.min_by_key(|(_, session)| session.used)?.0;
        open.remove(&eldest).into_iter().for_each(Session::close);
    }
    Some(())
}

/// Closes idle sessions, for as long as the pool exists.
async fn close_idle<K: Copy + Ord>(shared: Weak<PoolState<K>>) {
    let mut ticks = tokio::time::interval(LOOK_EVERY);
    loop {
        ticks.tick().await;
        let Some(shared) = shared.upgrade() else {
            return;
        };
        let mut open = shared.open.lock();
        let is_idle = |session: &Session| !session.is_used() && session.used.elapsed() > IDLE_AFTER;
        let idle = open.iter().filter(|(_, session)| is_idle(session));
        let idle: Vec<K> = idle.map(|(far, _)| *far).collect();
        for far in idle {
            open.remove(&far).into_iter().for_each(Session::close);
        }
    }
}

const MAX_SESSIONS: usize = 64;
/// Idle time after which a session ends.
pub(super) const IDLE_AFTER: Duration = Duration::from_secs(120);
/// Time for the far end to admit this host over an existing connection.
const HOPE: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_secs(15);
/// Time for data in flight when a session is closed.
pub(super) const CLOSE_PATIENCE: Duration = Duration::from_secs(3);
