//! Following destinations that have a route other than the default route.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use ipnet::IpNet;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::monitor::{Events, Follow, Following, subscribe};
use super::{LinkError, particular_prefixes};

/// The list of [`particular_prefixes`], kept current for as long as this lives.
///
/// As with links, events only say that something has changed. Where routes change all the time, as
/// on a router, reads of the list are spaced: they take at most a tenth of the time.
#[derive(Debug)]
pub struct PrefixMonitor {
    _following: Following,
    prefixes: watch::Receiver<Arc<Vec<IpNet>>>,
}

type Sender = watch::Sender<Arc<Vec<IpNet>>>;

impl PrefixMonitor {
    /// Lists the prefixes and follows them from then on.
    pub async fn start() -> Result<Self, LinkError> {
        // Subscribes once here, so that a permanent failure is an error and not a line in the log.
        drop(subscribe()?);
        let (sender, mut prefixes) = watch::channel(Arc::new(particular_prefixes().await?));
        prefixes.mark_changed();
        Ok(Self {
            _following: Following::start(PrefixList(sender)),
            prefixes,
        })
    }

    /// Waits until the list differs from the list that was returned last, and returns it; returns
    /// the first list at once.
    pub async fn changed(&mut self) -> Arc<Vec<IpNet>> {
        match self.prefixes.changed().await {
            Ok(()) => Arc::clone(&self.prefixes.borrow_and_update()),
            // The task ends only when this value is dropped.
            Err(_) => std::future::pending().await,
        }
    }
}

struct PrefixList(Sender);

impl Follow for PrefixList {
    const WHAT: &'static str = "routes";

    async fn follow(&self, events: Events<'_>) {
        loop {
            let began = Instant::now();
            match particular_prefixes().await {
                Ok(listed) => publish(&self.0, listed),
                Err(error) => tracing::warn!(%error, "cannot list routes"),
            }
            let pause = began
                .elapsed()
                .saturating_mul(10)
                .clamp(DEBOUNCE, MAX_PAUSE);
            if events.next().await.is_none() {
                return;
            }
            // Reads further events meanwhile, so that they do not pile up.
            let rest = Instant::now() + pause;
            while let Ok(event) = timeout_at(rest, events.next()).await {
                if event.is_none() {
                    return;
                }
            }
        }
    }
}

fn publish(sender: &Sender, listed: Vec<IpNet>) {
    sender.send_if_modified(|known| {
        let changed = **known != listed;
        if changed {
            tracing::debug!(prefixes = listed.len(), "list of routes changed");
            *known = Arc::new(listed);
        }
        changed
    });
}

/// Time to collect events before the list is read again.
const DEBOUNCE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_secs(5);
