//! The agent: follows the signals of links, so that traffic has left a link before it goes.

use std::collections::BTreeSet;
use std::future::pending;
use std::sync::Arc;

use hawser_control::SignalSource;
use hawser_net::clock;
use hawser_net::links::follow_wifi_signals;
use hawser_types::{Instant, Radio, SignalStrength};
use tokio::task::JoinSet;

use super::links::Links;
use super::rules::{LinkRuleStore, Reading};

/// What follows signals, for as long as this lives.
pub(crate) struct Agent {
    _tasks: JoinSet<()>,
}

impl Agent {
    /// Follows the signals of `links`, and has `rules` take links out of use and back into it.
    pub(crate) fn start(rules: &Arc<LinkRuleStore>, links: &Links) -> Self {
        let mut tasks = JoinSet::new();
        tasks.spawn(keep_time(Arc::clone(rules), links.clone()));
        tasks.spawn(follow_wifi(Arc::clone(rules), links.clone()));
        Self { _tasks: tasks }
    }
}

/// Brings links back in time, and forgets the signals of those that are gone: when they are back,
/// they are judged anew.
async fn keep_time(rules: Arc<LinkRuleStore>, mut links: Links) {
    let mut changes = rules.changes();
    loop {
        tokio::select! {
            () = sleep_until(rules.signal_timeout()) => rules.handle_signal_timeout(),
            _ = changes.changed() => {}
            changed = links.changed() => match changed {
                Ok(()) => rules.keep_signals(&links.borrow_and_update().clone()),
                Err(_) => return,
            },
        }
    }
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep(due.since(clock::now())).await,
        None => pending().await,
    }
}

async fn follow_wifi(rules: Arc<LinkRuleStore>, links: Links) {
    let mut told = Told::new(rules, SignalSource::Kernel);
    follow_wifi_signals(|signals| {
        let there = Arc::clone(&links.borrow());
        let name = |index| there.iter().find(|link| link.index == index);
        let signals = signals.into_iter().filter_map(|(index, strength)| {
            Some((name(index)?.name.clone(), Radio::WiFi, strength))
        });
        told.tell(signals.collect());
    })
    .await;
}

/// What one source has told of links.
struct Told {
    rules: Arc<LinkRuleStore>,
    source: SignalSource,
    links: BTreeSet<String>,
}

impl Told {
    fn new(rules: Arc<LinkRuleStore>, source: SignalSource) -> Self {
        Self {
            rules,
            source,
            links: BTreeSet::new(),
        }
    }

    /// Tells the signals of all links that the source knows. What it told of others holds no more.
    fn tell(&mut self, signals: Vec<(String, Radio, SignalStrength)>) {
        let before = std::mem::take(&mut self.links);
        for (link, radio, strength) in signals {
            let reading = Reading {
                source: self.source,
                radio,
                strength: Some(strength),
            };
            self.rules.handle_signal(&link, reading);
            self.links.insert(link);
        }
        for link in before.difference(&self.links) {
            let reading = Reading {
                source: self.source,
                radio: Radio::default(),
                strength: None,
            };
            self.rules.handle_signal(link, reading);
        }
    }
}
