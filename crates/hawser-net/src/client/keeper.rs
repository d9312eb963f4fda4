//! Keeps every link's channels alive for as long as a session lives.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use hawser_channels::keeper::{AttemptFailure, ChannelKeeper, JoinTurns, KeeperAction};
use hawser_types::{ChannelId, Instant, LinkIndex};
use hawser_wire::ChannelRole;
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tracing::Instrument as _;

use super::first::{self, First};
use super::join::join;
use super::join_error::JoinError;
use super::link_statuses::LinkStatus;
use super::rest;
use super::shared::{ClientState, keeps_connections};
use super::{accepted, association};
use crate::clock;
use crate::driver::Driver;
use crate::sign_of_life::is_heard;
use crate::spans;
use hawser_link::bind::SocketOptions;
use hawser_link::links::Link;

/// Keeps the channels until the session ends.
pub(super) async fn keep(shared: Arc<ClientState>, first: First) {
    let driver = first.driver.clone();
    let mut links = shared.links.clone();
    let mut rules = shared.rules.subscribe();
    let mut scheduler = shared.scheduler.subscribe();
    let mut changes = driver.changes();
    let mut tasks = JoinSet::new();
    let associating = association::keep(Arc::clone(&shared), driver.clone());
    tasks.spawn(associating.in_current_span());
    tasks.spawn(rest::watch(driver.clone()).in_current_span());
    tasks.spawn(accepted::keep(Arc::clone(&shared), driver.clone()).in_current_span());
    let mut running: BTreeMap<LinkIndex, (Link, tokio::task::AbortHandle)> = BTreeMap::new();
    let mut first = Some(first);
    shared.statuses.lock().begin(driver.id());
    while driver.closed().is_none() {
        // After every change of links: rules name links, and sessions number them.
        shared.tell_rules(&driver);
        shared.tell_scheduler(&driver);
        let wanted = shared.usable_links();
        running.retain(|index, (link, task)| {
            let same = wanted
                .iter()
                .any(|now| now.index == *index && keeps_connections(now, link));
            if !same {
                tracing::info!(link = %link.name,
                    "closing channels of a link that is gone, has changed or is forbidden");
                task.abort();
                shared.statuses.lock().remove(driver.id(), *index);
            }
            same
        });
        for link in wanted {
            if running.contains_key(&link.index) {
                continue;
            }
            let begun = first.take_if(|first| first.link.index == link.index);
            let keeper = LinkKeeper::new(&shared, &driver, link.clone(), begun);
            let span = spans::link(&link.name);
            // If `debug` lines are disabled, only the session's span is left.
            let keeping = keeper.run().instrument(span).in_current_span();
            running.insert(link.index, (link, tasks.spawn(keeping)));
        }
        tokio::select! {
            _ = links.changed() => {}
            _ = rules.changed() => {}
            _ = scheduler.changed() => {}
            _ = changes.changed() => {}
            Some(_) = tasks.join_next(), if !tasks.is_empty() => {}
        }
    }
    shared.statuses.lock().end(driver.id());
}

/// Keeps the channels of one link: makes the connections that a [`ChannelKeeper`] plans.
struct LinkKeeper {
    shared: Arc<ClientState>,
    driver: Driver,
    link: Link,
    /// The address that the link's channels go to, once one worked.
    remote: Option<SocketAddr>,
    plan: ChannelKeeper,
    turns: Arc<Mutex<JoinTurns>>,
    /// Time since which joins break off; the channels were then asked for a sign of life.
    broken_since: Option<Instant>,
}

impl LinkKeeper {
    fn new(shared: &Arc<ClientState>, driver: &Driver, link: Link, first: Option<First>) -> Self {
        let channel = first.as_ref().map(|first| first.channel);
        let mut keeper = Self {
            plan: ChannelKeeper::new(clock::now(), shared.config.express, channel),
            shared: Arc::clone(shared),
            driver: driver.clone(),
            link,
            remote: first.map(|first| first.remote),
            turns: Arc::default(),
            broken_since: None,
        };
        let known = keeper.shared.lost_segment(&keeper.link);
        keeper.plan.handle_lost_segment(clock::now(), known);
        keeper.publish(None);
        keeper
    }

    async fn run(mut self) {
        let mut changes = self.driver.changes();
        let mut addresses = self.shared.addresses.subscribe();
        let mut attempts = FuturesUnordered::new();
        loop {
            self.look_after(&mut attempts).await;
            let next = self.plan.poll_timeout();
            let wake = tokio::time::sleep_until(clock::to_tokio(next.unwrap_or_default()));
            tokio::select! {
                Some((role, result)) = attempts.next(), if !attempts.is_empty() => {
                    self.on_result(role, result);
                }
                () = wake, if next.is_some() => {}
                Ok(()) = addresses.changed() => {
                    // Channels to the old address stay until new ones are established.
                    if let Some(remote) = self.remote.take_if(|at| !self.shared.is_still_at(*at)) {
                        let link = &self.link.name;
                        tracing::info!(%link, %remote, "gateway has left this address");
                        self.plan.handle_address_gone(clock::now());
                    }
                }
                changed = changes.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    self.plan.handle_change(clock::now());
                }
            }
        }
    }

    /// Performs the actions that the plan asks for now.
    async fn look_after(&mut self, attempts: &mut FuturesUnordered<Attempt>) {
        let live = self.driver.channels();
        let wanted = self.driver.wanted_channels(self.link.index);
        let lost = self.driver.lost_segment(self.link.index);
        if let Some(lost) = lost {
            self.shared.note_lost_segment(&self.link, lost);
        }
        self.plan.handle_lost_segment(clock::now(), lost);
        self.plan.update(|channel| live.contains(&channel), wanted);
        while let Some(action) = self.plan.poll_action(clock::now()) {
            match action {
                KeeperAction::Attempt {
                    role,
                    search,
                    max_segment,
                } => {
                    // Ports that the gateway shares with no service are tried first each time.
                    let is_own = |at: &SocketAddr| self.shared.shared_port(*at).is_none();
                    let remote = self.remote.filter(|at| !search && is_own(at));
                    attempts.push(self.attempt(role, remote, max_segment));
                }
                KeeperAction::AbandonAttempts => attempts.clear(),
                KeeperAction::Drop(channel) => {
                    tracing::info!(link = %self.link.name, %channel, "closing one bulk channel");
                    self.driver.drop_channel(channel);
                }
                KeeperAction::AskGateway => self.ask_gateway().await,
                KeeperAction::EndSession => self.driver.abort(),
            }
        }
    }

    fn on_result(&mut self, role: ChannelRole, result: Joined) {
        let error = match result {
            Ok((channel, remote)) => return self.on_joined(role, channel, remote),
            Err(error) => error,
        };
        let failure = AttemptFailure::from(&error);
        let is_cut_off = self.driver.channels().is_empty();
        if failure == AttemptFailure::Broken && self.broken_since.is_none() {
            self.broken_since = Some(clock::now());
            self.driver.with(|session, now| session.probe(now));
        }
        self.plan.handle_failed(failure, is_cut_off);
        if matches!(failure, AttemptFailure::Broken | AttemptFailure::NoChannel) {
            if self.plan.failures().is_power_of_two() {
                tracing::info!(link = %self.link.name, %error, "cannot add channel");
            }
            self.publish(Some(error.to_string()));
        }
    }

    fn on_joined(&mut self, role: ChannelRole, channel: ChannelId, remote: SocketAddr) {
        if !self.plan.handle_joined(clock::now(), role, channel) {
            self.driver.drop_channel(channel);
            return;
        }
        self.remote = Some(remote);
        self.broken_since = None;
        self.shared.note_reached(remote, false);
        tracing::debug!(%remote, ?role, %channel, "joined the session");
        self.publish(None);
    }

    /// Finds out why joins break off. If the gateway proves its key in a new handshake, but answers
    /// on no channel, the gateway was restarted and does not know the session; else a host on the
    /// path breaks joins. Channels of a silent link have not failed yet and would live on for long.
    async fn ask_gateway(&mut self) {
        let asked = self.broken_since.take().unwrap_or_else(clock::now);
        let driver = &self.driver;
        let is_cut_off = async {
            driver.channels().is_empty() || !is_heard(driver, asked, asked + SIGN_OF_LIFE).await
        };
        let (is_cut_off, answer) = tokio::join!(is_cut_off, first::race(&self.shared));
        let is_heard = || driver.with(|session, _| session.was_heard_since(asked));
        if is_cut_off && answer.is_ok() && !is_heard() {
            self.shared.note_forgotten(driver);
            driver.abort();
        }
    }

    fn attempt(
        &self,
        role: ChannelRole,
        remote: Option<SocketAddr>,
        max_segment: Option<u16>,
    ) -> Attempt {
        let (shared, driver) = (Arc::clone(&self.shared), self.driver.clone());
        let (link, turns) = (self.link.clone(), Arc::clone(&self.turns));
        let options = SocketOptions {
            max_segment,
            ..shared.socket_options()
        };
        Box::pin(async move {
            let joined = join(&shared, &driver, (&link, &options), remote, role, &turns).await;
            (role, joined)
        })
    }

    fn publish(&self, problem: Option<String>) {
        let status = LinkStatus {
            link: self.link.clone(),
            remote: self.remote,
            problem,
        };
        let mut statuses = self.shared.statuses.lock();
        statuses.report(self.driver.id(), status);
    }
}

impl Drop for LinkKeeper {
    fn drop(&mut self) {
        // The link or its address is gone: connections on it can't live on.
        for channel in self.plan.channels() {
            self.driver.drop_channel(channel);
        }
    }
}

impl From<&JoinError> for AttemptFailure {
    fn from(error: &JoinError) -> Self {
        match error {
            JoinError::Overtaken => Self::Overtaken,
            JoinError::NoGrant => Self::NoGrant,
            JoinError::Broken(_) => Self::Broken,
            _ => Self::NoChannel,
        }
    }
}

/// Three round trips of a slow link.
const SIGN_OF_LIFE: Duration = Duration::from_secs(1);

type Joined = Result<(ChannelId, SocketAddr), JoinError>;
type Attempt = std::pin::Pin<Box<dyn Future<Output = (ChannelRole, Joined)> + Send>>;
