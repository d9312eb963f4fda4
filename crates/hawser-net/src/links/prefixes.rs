//! Following what is reached otherwise than by the default route.

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
/// on a router, the list is read again at a distance: a tenth of the time at most is spent on it.
#[derive(Debug)]
pub struct PrefixMonitor {
    _following: Following,
    prefixes: watch::Receiver<Arc<Vec<IpNet>>>,
}

type Sender = watch::Sender<Arc<Vec<IpNet>>>;

impl PrefixMonitor {
    /// Lists the prefixes and follows them from then on.
    pub async fn start() -> Result<Self, LinkError> {
        // Here already, so that what cannot work is an error and not a line in the log.
        drop(subscribe()?);
        let (sender, mut prefixes) = watch::channel(Arc::new(particular_prefixes().await?));
        prefixes.mark_changed();
        Ok(Self {
            _following: Following::start(PrefixList(sender)),
            prefixes,
        })
    }

    /// Waits until the list is another one than the last that this gave, and gives it; the first
    /// one at once.
    pub async fn changed(&mut self) -> Arc<Vec<IpNet>> {
        match self.prefixes.changed().await {
            Ok(()) => Arc::clone(&self.prefixes.borrow_and_update()),
            // The task has ended, which it does with this only.
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
                Err(error) => tracing::warn!(%error, "routes can't be listed now"),
            }
            let pause = began
                .elapsed()
                .saturating_mul(10)
                .clamp(DEBOUNCE, MAX_PAUSE);
            if events.next().await.is_none() {
                return;
            }
            // More of them are taken in meanwhile, so that they do not pile up.
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
            tracing::debug!(prefixes = listed.len(), "routes have changed");
            *known = Arc::new(listed);
        }
        changed
    });
}

/// How long events are collected before the list is read again.
const DEBOUNCE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_secs(5);
