//! Lookups of names for clients of a gateway.
//!
//! A hanging lookup occupies a thread until the system gives up, so lookups are scarce. Each client
//! has a share of them, equal lookups are shared, and answers are cached for a moment.

mod answers;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use hawser_types::{ByteCount, Charge};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use super::client::{ClientId, Permit};
use crate::destination::{Host, HostName};
use crate::resolve::{Resolve, addresses_of};
use crate::transport::DialError;
use answers::{Answer, Answers};

/// Lookups by `R` for the clients of a gateway.
pub(super) struct Lookups<R> {
    resolver: Arc<R>,
    book: Arc<Mutex<Book>>,
    /// Places for the lookups of all clients.
    common: Arc<Semaphore>,
    /// Places for the first few lookups of a client, when others have taken the common ones.
    reserve: Arc<Semaphore>,
}

/// A lookup in progress, for all its waiters.
type Running = Shared<BoxFuture<'static, Answer>>;

#[derive(Default)]
struct Book {
    answers: Answers,
    running: BTreeMap<HostName, Running>,
    shares: Shares,
}

/// The places of each client that has lookups now.
#[derive(Default)]
struct Shares {
    by_client: BTreeMap<ClientId, Weak<Semaphore>>,
    /// At this size, entries of clients without a lookup are removed.
    swept_at: usize,
}

impl<R: Resolve> Lookups<R> {
    pub(super) fn new(resolver: R) -> Self {
        Self {
            resolver: Arc::new(resolver),
            book: Arc::default(),
            common: Arc::new(Semaphore::new(COMMON_LOOKUPS)),
            reserve: Arc::new(Semaphore::new(RESERVED_LOOKUPS)),
        }
    }

    /// Returns the addresses of `host`, which may itself be an address, for a client that waits at
    /// most `patience`.
    ///
    /// # Errors
    /// The resolver's; [`DialError::ResolverUnavailable`] when there is no answer in time, which
    /// may be the client's own fault, because its lookups beyond its share wait for each other;
    /// [`DialError::LimitReached`] when the client has no memory left for one more.
    pub(super) async fn addresses(
        &self,
        permit: &Permit,
        host: &Host,
        patience: Duration,
    ) -> Result<Vec<IpAddr>, DialError> {
        match host {
            Host::Ip(address) => Ok(vec![*address]),
            Host::Name(name) => timeout(patience, self.look_up(permit, name))
                .await
                .unwrap_or(Err(DialError::ResolverUnavailable)),
        }
    }

    async fn look_up(&self, permit: &Permit, name: &HostName) -> Answer {
        let begun = self.book.lock().begun(name);
        if let Some(begun) = begun {
            return begun.await;
        }
        let places = self.place(permit.client()).await?;
        let charge = permit.account().charge(LOOKUP_CHARGE);
        let charge = charge.map_err(|_| DialError::LimitReached)?;
        // Another client may have begun the same lookup meanwhile. A lookup that still waits for a
        // place is not shared: it may wait long behind its client's other lookups.
        let running = {
            let mut book = self.book.lock();
            match book.begun(name) {
                Some(begun) => begun,
                None => self.begin(&mut book, name, (places, charge)),
            }
        };
        running.await
    }

    /// Waits for a place within the client's share, and for a place among all lookups.
    async fn place(&self, client: ClientId) -> Result<[OwnedSemaphorePermit; 2], DialError> {
        let share = self.book.lock().shares.of(client);
        let own = Arc::clone(&share).acquire_owned();
        let own = own.await.map_err(|_| DialError::Internal)?;
        let taken = LOOKUPS_OF_CLIENT - share.available_permits();
        let common = Arc::clone(&self.common).acquire_owned();
        let place = if taken <= FEW {
            tokio::select! {
                biased;
                place = common => place,
                place = Arc::clone(&self.reserve).acquire_owned() => place,
            }
        } else {
            common.await
        };
        Ok([own, place.map_err(|_| DialError::Internal)?])
    }

    /// Begins a lookup. It continues, and keeps its place until it ends, even if no client waits
    /// for it any more.
    fn begin(
        &self,
        book: &mut Book,
        name: &HostName,
        place: ([OwnedSemaphorePermit; 2], Charge),
    ) -> Running {
        let (resolver, host) = (Arc::clone(&self.resolver), Host::Name(name.clone()));
        let mut ending = Ending {
            book: Arc::clone(&self.book),
            name: name.clone(),
            answer: Err(DialError::Internal),
        };
        let looking = tokio::spawn(async move {
            let _place = place;
            ending.answer = addresses_of(&*resolver, &host).await;
            ending.answer.clone()
        });
        let looking = looking.map(|ended| ended.unwrap_or(Err(DialError::Internal)));
        let looking = looking.boxed().shared();
        book.running.insert(name.clone(), looking.clone());
        looking
    }
}

/// Notes the answer of a lookup when it ends, also after a panic.
struct Ending {
    book: Arc<Mutex<Book>>,
    name: HostName,
    answer: Answer,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let mut book = self.book.lock();
        book.running.remove(&self.name);
        book.answers.note(&self.name, &self.answer, Instant::now());
    }
}

impl Book {
    /// Returns the answer to a lookup that runs or has recently ended.
    fn begun(&mut self, name: &HostName) -> Option<Running> {
        if let Some(answer) = self.answers.recall(name, Instant::now()) {
            return Some(std::future::ready(answer).boxed().shared());
        }
        self.running.get(name).cloned()
    }
}

impl Shares {
    fn of(&mut self, client: ClientId) -> Arc<Semaphore> {
        let known = self.by_client.get(&client).and_then(Weak::upgrade);
        if let Some(share) = known {
            return share;
        }
        if self.by_client.len() >= self.swept_at {
            self.by_client.retain(|_, share| share.strong_count() > 0);
            self.swept_at = (2 * self.by_client.len()).max(MIN_SWEPT);
        }
        let share = Arc::new(Semaphore::new(LOOKUPS_OF_CLIENT));
        self.by_client.insert(client, Arc::downgrade(&share));
        share
    }
}

impl<R> fmt::Debug for Lookups<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lookups").finish_non_exhaustive()
    }
}

/// Lookups of all clients at the same time; each occupies a thread.
pub(super) const MAX_LOOKUPS: usize = COMMON_LOOKUPS + RESERVED_LOOKUPS;
const COMMON_LOOKUPS: usize = 192;
const RESERVED_LOOKUPS: usize = 64;
/// Lookups of one client at the same time: a browser's page has about as many names.
const LOOKUPS_OF_CLIENT: usize = 16;
/// Lookups of one client that may take a reserved place.
const FEW: usize = 2;
const MIN_SWEPT: usize = 64;
/// Memory of a lookup: its names, its task, and the stack of the waiting thread. See
/// docs/design/charges.md.
const LOOKUP_CHARGE: ByteCount = ByteCount::from_kib(16);
