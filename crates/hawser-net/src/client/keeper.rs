//! Keeps every link's channels alive for as long as a session lives.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use hawser_types::{ChannelId, LinkIndex};
use hawser_wire::ChannelRole;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::association;
use super::first::{self, First};
use super::join::{JoinError, Turns, join};
use super::{LinkStatus, Shared};
use crate::driver::Driver;
use crate::links::Link;

/// Runs until the session ends.
pub(super) async fn keep(shared: &Arc<Shared>, first: First) {
    let driver = first.driver.clone();
    let mut links = shared.links.clone();
    let mut rules = shared.rules.subscribe();
    let mut scheduler = shared.scheduler.subscribe();
    let mut changes = driver.changes();
    let mut tasks = JoinSet::new();
    tasks.spawn(association::keep(Arc::clone(shared), driver.clone()));
    let mut running: BTreeMap<u32, (Link, tokio::task::AbortHandle)> = BTreeMap::new();
    let mut first = Some(first);
    while driver.closed().is_none() {
        // Links come and go, and what is said of their names holds for their numbers.
        shared.tell_rules(&driver);
        shared.tell_scheduler(&driver);
        let wanted = shared.usable_links();
        running.retain(|index, (link, task)| {
            let same = wanted
                .iter()
                .any(|now| now.index == *index && is_same_link(now, link));
            if !same {
                tracing::info!(link = %link.name, "the link is gone, has changed or is forbidden");
                task.abort();
                shared.lock_keepers().remove(index);
            }
            same
        });
        for link in wanted {
            if running.contains_key(&link.index) {
                continue;
            }
            let begun = first.take_if(|first| first.link.index == link.index);
            let keeper = LinkKeeper::new(shared, &driver, link.clone(), begun);
            running.insert(link.index, (link, tasks.spawn(keeper.run())));
        }
        tokio::select! {
            _ = links.changed() => {}
            _ = rules.changed() => {}
            _ = scheduler.changed() => {}
            _ = changes.changed() => {}
            Some(_) = tasks.join_next(), if !tasks.is_empty() => {}
        }
    }
    shared.lock_keepers().clear();
}

/// A link that keeps its addresses keeps its connections.
fn is_same_link(now: &Link, before: &Link) -> bool {
    now.addresses == before.addresses
}

/// Keeps the channels of one link.
struct LinkKeeper {
    shared: Arc<Shared>,
    driver: Driver,
    link: Link,
    /// Where the link's channels go, once one worked.
    remote: Option<SocketAddr>,
    /// By role, the eldest first.
    held: [Vec<ChannelId>; 2],
    turns: Arc<Turns>,
    failures: u32,
    /// Attempts since the last channel joined.
    tries: u32,
    /// Joins that the gateway broke off while the session had no channel at all.
    turned_away: u32,
    /// Attempts that lacked a number since the last channel joined.
    without_grant: u32,
}

impl LinkKeeper {
    fn new(shared: &Arc<Shared>, driver: &Driver, link: Link, first: Option<First>) -> Self {
        let mut held: [Vec<ChannelId>; 2] = Default::default();
        let remote = first.as_ref().map(|first| first.remote);
        if let Some(first) = first {
            let role = if shared.config.express {
                ChannelRole::Express
            } else {
                ChannelRole::Bulk
            };
            held[role as usize].push(first.channel);
        }
        let keeper = Self {
            shared: Arc::clone(shared),
            driver: driver.clone(),
            link,
            remote,
            held,
            turns: Arc::default(),
            failures: 0,
            tries: 0,
            turned_away: 0,
            without_grant: 0,
        };
        keeper.publish(None);
        keeper
    }

    async fn run(mut self) {
        let mut changes = self.driver.changes();
        let mut attempts = FuturesUnordered::new();
        let mut next_attempt = Instant::now();
        loop {
            self.forget_lost();
            self.drop_surplus();
            let missing = self.missing();
            let Some(role) = missing.first().copied() else {
                attempts.clear();
                if changes.changed().await.is_err() {
                    return;
                }
                next_attempt = Instant::now();
                continue;
            };
            if Instant::now() >= next_attempt && attempts.len() < self.most_attempts() {
                let known = self.remote_to_try();
                // A search is for one channel: the first one finds the way for the others.
                let roles = missing.len() * usize::from(known.is_some());
                for role in missing.into_iter().take(roles.max(1)) {
                    let (shared, driver) = (&self.shared, &self.driver);
                    let turns = Arc::clone(&self.turns);
                    attempts.push(attempt(shared, driver, &self.link, known, role, turns));
                }
                next_attempt = Instant::now() + self.pause();
            }
            // At the limit only an attempt that ends makes room for another.
            let may_try = attempts.len() < self.most_attempts();
            tokio::select! {
                Some((role, result)) = attempts.next(), if !attempts.is_empty() => {
                    let joined = result.is_ok();
                    self.on_result(role, result);
                    self.check_gateway().await;
                    if joined && attempts.is_empty() {
                        next_attempt = Instant::now();
                    }
                }
                () = tokio::time::sleep_until(next_attempt), if may_try => {}
                changed = changes.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    // A grant may have come that an attempt lacked.
                    if self.failures == 0 && role == ChannelRole::Bulk && attempts.is_empty() {
                        next_attempt = Instant::now();
                    }
                }
            }
        }
    }

    fn on_result(&mut self, role: ChannelRole, result: Joined) {
        match result {
            Err(JoinError::Overtaken) => {}
            Ok((channel, remote)) => {
                if !self.wants(role) {
                    // A slower attempt succeeded too.
                    self.driver.drop_channel(channel);
                    return;
                }
                self.held[role as usize].push(channel);
                self.remote = Some(remote);
                self.failures = 0;
                self.tries = 0;
                self.turned_away = 0;
                self.without_grant = 0;
                tracing::info!(link = %self.link.name, %remote, ?role, %channel, "joined");
                self.publish(None);
            }
            Err(JoinError::NoGrant) => {
                self.without_grant += 1;
                // Without a channel no grant can come any more.
                if self.without_grant >= MAX_WITHOUT_GRANT && self.driver.channels().is_empty() {
                    self.driver.abort();
                }
            }
            Err(error) => {
                self.failures = self.failures.saturating_add(1);
                if matches!(error, JoinError::Broken(_)) && self.driver.channels().is_empty() {
                    self.turned_away += 1;
                }
                if self.failures.is_power_of_two() {
                    tracing::info!(link = %self.link.name, %error, "no channel");
                }
                self.publish(Some(error.to_string()));
            }
        }
    }

    /// Joins are broken off. When the gateway proves that it is the one that does so, it was
    /// restarted and does not know the session; else somebody on the way does.
    async fn check_gateway(&mut self) {
        if self.turned_away < MAX_TURNED_AWAY {
            return;
        }
        self.turned_away = 0;
        if first::race(&self.shared).await.is_ok() && self.driver.channels().is_empty() {
            self.driver.abort();
        }
    }

    fn forget_lost(&mut self) {
        let live = self.driver.channels();
        for held in &mut self.held {
            held.retain(|channel| live.contains(channel));
        }
    }

    /// The link rests, and another channel was tried in vain or is not needed for now.
    fn drop_surplus(&mut self) {
        let wanted = self.wanted(ChannelRole::Bulk);
        let bulk = &mut self.held[ChannelRole::Bulk as usize];
        for channel in bulk.split_off(wanted.min(bulk.len())) {
            tracing::info!(link = %self.link.name, %channel, "one bulk channel less");
            self.driver.drop_channel(channel);
        }
    }

    fn missing(&self) -> Vec<ChannelRole> {
        let roles: &[ChannelRole] = match self.shared.config.express {
            true => &[ChannelRole::Bulk, ChannelRole::Express],
            false => &[ChannelRole::Bulk],
        };
        roles
            .iter()
            .copied()
            .filter(|role| self.wants(*role))
            .collect()
    }

    fn wants(&self, role: ChannelRole) -> bool {
        self.held[role as usize].len() < self.wanted(role)
    }

    /// How many channels of a kind there are to be.
    fn wanted(&self, role: ChannelRole) -> usize {
        match role {
            ChannelRole::Bulk => self.driver.wanted_channels(LinkIndex::new(self.link.index)),
            ChannelRole::Express => 1,
        }
    }

    /// The address that worked. Now and then `None`, which searches all addresses: another one may
    /// work by now.
    fn remote_to_try(&mut self) -> Option<SocketAddr> {
        self.tries = self.tries.wrapping_add(1);
        self.remote
            .filter(|_| !self.tries.is_multiple_of(SEARCH_EVERY))
    }

    fn most_attempts(&self) -> usize {
        match self.remote {
            Some(_) => MAX_ATTEMPTS,
            None => MAX_SEARCHES,
        }
    }

    /// A link that has failed for long is tried less often.
    fn pause(&self) -> Duration {
        match self.failures {
            0..40 => RETRY,
            40..200 => RETRY * 5,
            _ => RETRY * 20,
        }
    }

    fn publish(&self, problem: Option<String>) {
        let status = LinkStatus {
            link: self.link.clone(),
            remote: self.remote,
            problem,
        };
        self.shared.lock_keepers().insert(self.link.index, status);
    }
}

impl Drop for LinkKeeper {
    fn drop(&mut self) {
        // The link is gone, or its address: connections on it can't live on.
        for channel in self.held.iter().flatten().copied() {
            self.driver.drop_channel(channel);
        }
    }
}

type Joined = Result<(ChannelId, SocketAddr), JoinError>;
type Attempt = std::pin::Pin<Box<dyn Future<Output = (ChannelRole, Joined)> + Send>>;

fn attempt(
    shared: &Arc<Shared>,
    driver: &Driver,
    link: &Link,
    remote: Option<SocketAddr>,
    role: ChannelRole,
    turns: Arc<Turns>,
) -> Attempt {
    let (shared, driver, link) = (Arc::clone(shared), driver.clone(), link.clone());
    Box::pin(async move {
        let joined = join(&shared, &driver, &link, remote, role, &turns).await;
        (role, joined)
    })
}

/// A fresh connection is tried this often while a link has none.
const RETRY: Duration = Duration::from_millis(300);
const MAX_ATTEMPTS: usize = 12;
/// Each of them may be a connection to every address.
const MAX_SEARCHES: usize = 4;
/// Every so many attempts go to all addresses rather than to the one that worked.
const SEARCH_EVERY: u32 = 4;
const MAX_TURNED_AWAY: u32 = 3;
const MAX_WITHOUT_GRANT: u32 = 20;
