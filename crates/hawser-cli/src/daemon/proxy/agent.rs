//! The agent: follows the signals of links and the states of modems, so that traffic has left a
//! link before it goes, and has links on standby connected in time.

mod connecting;

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use hawser_config::Config;
use hawser_control::{ModemStatus, SignalSource};
use hawser_front::connection::SharedDirector;
use hawser_net::clock;
use hawser_net::links::{Measuring, Modem, follow_modems, follow_wifi_signals};
use hawser_types::{Instant, Radio, SignalStrength};
use tokio::sync::watch;
use tokio::task::JoinSet;

use self::connecting::Connecting;
pub(crate) use self::connecting::ShownStandby;
use super::links::Links;
use super::rules::{LinkRuleStore, Reading};
use crate::daemon::guard::start_guard;

/// The agent's tasks. [`Self::end`] takes back what other programs were asked to do.
pub(crate) struct Agent {
    _tasks: JoinSet<()>,
    /// Tasks that have asked other programs for something, and take it back when told to end.
    asking: JoinSet<()>,
    end: watch::Sender<()>,
}

impl Agent {
    /// Follows the signals of `links`, and has `rules` take links out of use and back into it.
    pub(crate) fn start(config: &Config, rules: &Arc<LinkRuleStore>, links: &Links) -> Self {
        let end = watch::Sender::new(());
        let (mut tasks, mut asking) = (JoinSet::new(), JoinSet::new());
        tasks.spawn(keep_time(Arc::clone(rules), links.clone()));
        tasks.spawn(follow_wifi(Arc::clone(rules), links.clone()));
        let modems = ModemReader::new(rules, links);
        asking.spawn(modems.run(measuring(config), end.subscribe()));
        Self {
            _tasks: tasks,
            asking,
            end,
        }
    }

    /// Has NetworkManager connect the links on standby while no other is well, as `director` knows
    /// them. Returns what is shown of them.
    pub(crate) fn keep_standby(
        &mut self,
        config: &Config,
        director: &SharedDirector,
        rules: &Arc<LinkRuleStore>,
        links: &Links,
    ) -> ShownStandby {
        let shown = ShownStandby::default();
        let names = config.links.iter().filter(|link| link.standby);
        let names: Vec<String> = names.map(|link| link.name.clone()).collect();
        if !names.is_empty() {
            let connecting = Connecting::new(names, director.clone(), Arc::clone(&shown));
            let told = (rules.changes(), links.clone());
            self.asking
                .spawn(connecting.run(told, self.end.subscribe()));
        }
        shown
    }

    /// Takes back what others' programs were asked to do.
    pub(crate) async fn end(mut self) {
        self.end.send_replace(());
        let ended = async { while self.asking.join_next().await.is_some() {} };
        if tokio::time::timeout(END_PATIENCE, ended).await.is_err() {
            tracing::warn!(
                "no answer over D-Bus: modems may go on measuring, links on standby stay connected"
            );
        }
    }
}

/// What modems are to measure.
fn measuring(config: &Config) -> Measuring {
    let links = config.links.iter();
    let wanted = links.filter_map(|link| Some((link.name.clone(), link.measure_signal?)));
    let wanted: BTreeMap<_, _> = wanted.collect();
    if wanted.is_empty() {
        return Measuring::default();
    }
    match start_guard() {
        Ok(guard) => Measuring::new(wanted, guard),
        Err(error) => {
            tracing::warn!("modems do not measure their signal: {error:#}");
            Measuring::default()
        }
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

/// Tells of modems.
struct ModemReader {
    told: Told,
    rules: Arc<LinkRuleStore>,
    links: Links,
}

impl ModemReader {
    fn new(rules: &Arc<LinkRuleStore>, links: &Links) -> Self {
        Self {
            told: Told::new(Arc::clone(rules), SignalSource::Modem),
            rules: Arc::clone(rules),
            links: links.clone(),
        }
    }

    async fn run(mut self, measuring: Measuring, mut end: watch::Receiver<()>) {
        let ended = async {
            let _ = end.changed().await;
        };
        follow_modems(measuring, |modems| self.tell(modems), ended).await;
    }

    /// Takes in what is said of links of this machine.
    fn tell(&mut self, mut modems: Vec<Modem>) {
        let there = Arc::clone(&self.links.borrow());
        modems.retain(|modem| there.iter().any(|link| link.name == modem.link));
        let signals = modems.iter().filter_map(|modem| {
            let (radio, strength) = modem.signal?;
            Some((modem.link.clone(), radio, strength))
        });
        self.told.tell(signals.collect());
        let status = modems.into_iter().map(|modem| {
            let status = ModemStatus {
                state: modem.state,
                technology: modem.technology.map(str::to_owned),
                reason: modem.problem,
            };
            (modem.link, status)
        });
        self.rules.set_modems(status.collect());
    }
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

/// Longest time that others' programs have for taking back what they were asked to do.
const END_PATIENCE: Duration = Duration::from_secs(3);
