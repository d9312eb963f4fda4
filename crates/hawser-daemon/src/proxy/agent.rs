//! The agent: follows the signals of links and the states of modems, so that traffic leaves a
//! link before the link fails, and standby links are connected in time.

mod connecting;

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use hawser_config::Config;
use hawser_control::{ModemStatus, SignalSource};
use hawser_front::connection::SharedDirector;
use hawser_host::modems::{Measuring, Modem, follow_modems};
use hawser_link::links::follow_wifi_signals;
use hawser_net::clock;
use hawser_types::{Instant, Radio, SignalStrength};
use tokio::sync::watch;
use tokio::task::JoinSet;

use self::connecting::Connecting;
pub(crate) use self::connecting::ShownStandby;
use super::links::Links;
use super::rules::{LinkRuleStore, Reading};
use crate::guard::start_guard;

/// The agent's tasks. [`Self::end`] withdraws the requests to other programs.
pub(crate) struct Agent {
    _tasks: JoinSet<()>,
    /// Tasks that send requests to other programs, and withdraw them when told to end.
    asking: JoinSet<()>,
    end: watch::Sender<()>,
}

impl Agent {
    /// Follows the signals of `links`; `rules` take links out of use and back into it.
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

    /// Makes NetworkManager connect the standby links while `director` knows no other working
    /// link. Returns their status.
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

    /// Withdraws the requests to other programs.
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

/// Returns which links' modems are to measure their signal.
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

/// Brings links back into use in time, and forgets the signals of links that are gone, so that they
/// are judged anew when they are back.
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

/// Passes the states of modems to the rules.
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

    /// Handles the states of modems, for links of this machine.
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

/// The links whose signal one source has reported.
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

    /// Reports the signals of all links that the source knows. Its earlier readings of other links
    /// become invalid.
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

/// Time limit for withdrawing the requests to other programs.
const END_PATIENCE: Duration = Duration::from_secs(3);
