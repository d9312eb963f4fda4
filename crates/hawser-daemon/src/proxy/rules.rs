//! The user's rules for links: the configured rules, the later changes, the used parts of
//! allowances, and the links that are out of use because their signal fades.

mod change;
mod signals;
mod usage;

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use hawser_config::Config;
use hawser_control::{LinkAllowed, ModemStatus, SignalStatus};
use hawser_director::AllLinkRules;
use hawser_keys::store::{StateDir, StateFile};
use hawser_keys::unix_time::UnixTime;
use hawser_link::links::Link;
use hawser_net::client::Client;
use hawser_net::clock;
use hawser_net::ticks::Ticks;
use hawser_sched::rules::{AtLimit, Date, LinkRules, Rule};
use hawser_types::{ByteCount, Instant};
use hawser_usage::{Trouble, UsageDatabase};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::proxy::links::Links;
pub use change::CheckedChange;
pub(crate) use signals::Reading;
use signals::Signals;
use usage::{Accounts, ByteTotals};

/// The rules in force, by the names of links, with the traffic accounts.
#[derive(Debug)]
pub struct LinkRuleStore {
    inner: Mutex<Inner>,
    /// Notified when the rules or signals may have changed.
    changed: watch::Sender<()>,
    /// `None` if the usage database can't be used: then the accounts start anew in each run.
    ledger: Option<SharedLedger>,
}

/// The usage database of the state directory, shared by its writers in this process.
pub(crate) type SharedLedger = Arc<Mutex<UsageDatabase>>;

#[derive(Debug, Default)]
struct Inner {
    rules: BTreeMap<String, Rule>,
    currencies: BTreeMap<String, String>,
    accounts: Accounts,
    /// Bytes that connections over single links have moved, by the links' names.
    connections: ByteTotals<String>,
    signals: Signals,
    /// True if the latest write to the usage database has failed.
    is_failing: bool,
    /// Time of the latest write to the usage database.
    written: Option<tokio::time::Instant>,
}

impl LinkRuleStore {
    /// Reads the configured rules, and opens the usage database of the state directory.
    pub fn open(config: &Config, state: &StateDir) -> Arc<Self> {
        let mut inner = Inner::of(config);
        let ledger = open_ledger(state);
        if let Some(ledger) = &ledger {
            match ledger.usage(today()) {
                Ok(usage) => inner.accounts.load(usage, today()),
                Err(error) => tracing::warn!(%error, "can't read the earlier usage of links"),
            }
        }
        Arc::new(Self {
            inner: Mutex::new(inner),
            changed: watch::Sender::new(()),
            ledger: ledger.map(|ledger| Arc::new(Mutex::new(ledger))),
        })
    }

    /// Returns the usage database, if it can be used.
    pub(crate) fn ledger(&self) -> Option<SharedLedger> {
        self.ledger.clone()
    }

    /// Returns the effect of the rules today.
    pub(crate) fn in_force(&self) -> BTreeMap<String, LinkRules> {
        self.inner.lock().in_force(today())
    }

    /// Returns the effect of the rules today on connections that go over one link each.
    pub(crate) fn for_director(&self) -> AllLinkRules {
        let inner = self.inner.lock();
        let costs = |rule: &Rule| rule.price > 0.0 || rule.allowance.is_some();
        let metered = inner.rules.iter().filter(|(_, rule)| costs(rule));
        AllLinkRules {
            by_name: inner.in_force(today()),
            metered: metered.map(|(name, _)| name.clone()).collect(),
            weak: inner.signals.weak(),
        }
    }

    /// Updates the accounts to the total traffic of links since the program's start, by their
    /// names. Saves the accounts, unless the traffic since the last time is little.
    pub(crate) async fn enter(self: &Arc<Self>, moved: &BTreeMap<String, [ByteCount; 2]>) {
        {
            let mut inner = self.inner.lock();
            for (name, moved) in moved {
                let news = inner.connections.news(name.clone(), *moved);
                inner.enter(name, news);
            }
        }
        self.write_unless_little().await;
    }

    /// Returns the rules for a link, and its usage; `None` if there are neither.
    pub(crate) fn allowed(&self, name: &str) -> Option<LinkAllowed> {
        self.inner.lock().allowed(name, today())
    }

    /// Handles a source's reading of a link's signal. The resulting rules are in force at once.
    pub(crate) fn handle_signal(&self, link: &str, reading: Reading) {
        self.change_signals(|signals, now| signals.handle_reading(now, link, reading));
    }

    /// Sets the states of all links' modems, by the links' names.
    pub(crate) fn set_modems(&self, modems: BTreeMap<String, ModemStatus>) {
        self.change_signals(|signals, _| signals.set_modems(modems));
    }

    /// Checks whether a signal has been good for long enough by now.
    pub(crate) fn handle_signal_timeout(&self) {
        self.change_signals(Signals::handle_timeout);
    }

    /// Forgets the signals of links that are not listed, or have no carrier.
    pub(crate) fn keep_signals(&self, links: &[Link]) {
        let is_up = |name: &str| links.iter().any(|link| link.name == name && link.up);
        self.change_signals(|signals, _| signals.retain(is_up));
    }

    /// Returns when to call [`Self::handle_signal_timeout`]; `None` means not before the next
    /// change.
    pub(crate) fn signal_timeout(&self) -> Option<Instant> {
        self.inner.lock().signals.poll_timeout()
    }

    /// Returns the status of a link's signal, if it is known.
    pub(crate) fn signal(&self, link: &str) -> Option<SignalStatus> {
        self.inner.lock().signals.status(link)
    }

    /// Returns the status of a link's modem, if it has a known one.
    pub(crate) fn modem(&self, link: &str) -> Option<ModemStatus> {
        self.inner.lock().signals.modem(link).cloned()
    }

    /// Returns a receiver that is notified when rules or signals may have changed.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    fn change_signals(&self, change: impl FnOnce(&mut Signals, Instant)) {
        change(&mut self.inner.lock().signals, clock::now());
        self.changed.send_replace(());
    }

    /// Applies the rules to a client for as long as it lives: counts the traffic of each link, and
    /// updates the client's rules when an allowance is used up, a month begins or a signal fades.
    pub fn keep(self: &Arc<Self>, client: &Arc<Client>, links: &Links) -> Keeping {
        let counted = Arc::new(Mutex::new(Counted::default()));
        let watched =
            Arc::clone(self).watch(Arc::downgrade(client), links.clone(), Arc::clone(&counted));
        Keeping {
            rules: Arc::clone(self),
            links: links.clone(),
            counted,
            watching: tokio::spawn(watched),
        }
    }

    async fn watch(
        self: Arc<Self>,
        client: Weak<Client>,
        links: Links,
        counted: Arc<Mutex<Counted>>,
    ) {
        let (mut ticks, mut changes) = (Ticks::every(COUNT_EVERY), self.changes());
        let mut counts: u64 = 0;
        loop {
            let is_due = tokio::select! {
                _ = ticks.tick() => true,
                _ = changes.changed() => false,
            };
            let Some(client) = client.upgrade() else {
                return;
            };
            if is_due && self.count(&client, &links, &counted) < QUIET {
                ticks.put_off(COUNT_IDLE_EVERY);
            }
            client.set_rules(self.in_force());
            counts += u64::from(is_due);
            if is_due && counts.is_multiple_of(WRITE_EVERY) {
                self.write_unless_little().await;
            }
        }
    }

    /// Counts the traffic of a client; returns the amount since the last count.
    fn count(&self, client: &Client, links: &Links, counted: &Mutex<Counted>) -> ByteCount {
        let mut all = ByteCount::ZERO;
        let mut counted = counted.lock();
        let there: BTreeMap<u32, String> = links
            .borrow()
            .iter()
            .map(|link| (link.index.value(), link.name.clone()))
            .collect();
        // A session that the client has left still carries its open streams.
        let sessions = client.sessions();
        let ids: Vec<String> = sessions.iter().map(|it| it.id().to_string()).collect();
        counted.keep(&ids);
        for (id, session) in ids.iter().zip(sessions) {
            let snapshot = session.snapshot(0);
            let moved = snapshot.links.iter();
            let moved = moved.map(|link| (link.link.value(), [link.sent, link.received]));
            let news = counted.news(id, there.clone(), moved.collect());
            let mut inner = self.inner.lock();
            for (name, news) in news {
                all = all + news[0] + news[1];
                inner.enter(&name, news);
            }
        }
        all
    }

    /// Writes the counts to the usage database; counts below [`MUCH`], as of an idle session, only
    /// seldom.
    async fn write_unless_little(self: &Arc<Self>) {
        let is_due = {
            let inner = self.inner.lock();
            let rested = inner.written.is_none_or(|at| at.elapsed() >= LITTLE_EVERY);
            rested || inner.accounts.pending_bytes() >= MUCH
        };
        if is_due {
            self.write().await;
        }
    }

    /// Writes the counts to the usage database.
    pub(crate) async fn write(self: &Arc<Self>) {
        self.inner.lock().written = Some(tokio::time::Instant::now());
        let this = Arc::clone(self);
        // Waits for the disk.
        let written = tokio::task::spawn_blocking(move || this.write_now()).await;
        if let Err(error) = written {
            tracing::warn!(%error, "task that writes the usage database failed");
        }
    }

    fn write_now(&self) {
        let Some(ledger) = &self.ledger else {
            return;
        };
        let mut ledger = ledger.lock();
        let pending = self.inner.lock().accounts.take_pending();
        if pending.is_empty() {
            return;
        }
        match ledger.charge(&pending) {
            Ok(()) => {
                self.inner.lock().is_failing = false;
                match ledger.usage(today()) {
                    // Another program may have added its own traffic.
                    Ok(usage) => self.inner.lock().accounts.load(usage, today()),
                    Err(error) => tracing::warn!(%error, "can't reload the saved usage of links"),
                }
            }
            Err(error) => {
                let mut inner = self.inner.lock();
                inner.accounts.give_back(&pending, today());
                // Logged once, since a full disk stays full for a while.
                if !std::mem::replace(&mut inner.is_failing, true) {
                    tracing::warn!(%error, "can't save the usage of links: trying again");
                }
            }
        }
    }
}

/// The counted traffic of one client's sessions, by their names.
#[derive(Debug, Default)]
struct Counted {
    sessions: BTreeMap<String, CountedSession>,
}

/// The counted traffic of one session.
#[derive(Debug, Default)]
struct CountedSession {
    /// Totals by index: a link that returns under its name has a new index, and counts from zero.
    seen: ByteTotals<u32>,
    /// Names of the session's links, some of which may be gone.
    names: BTreeMap<u32, String>,
}

impl Counted {
    /// Forgets all sessions except the `living` ones.
    fn keep(&mut self, living: &[String]) {
        self.sessions.retain(|id, _| living.contains(id));
    }

    /// Returns the new part of the traffic that a session has `moved` over its links, by the links'
    /// names; for links that are `there`, or were there while the session used them.
    fn news(
        &mut self,
        session: &str,
        there: BTreeMap<u32, String>,
        moved: BTreeMap<u32, [ByteCount; 2]>,
    ) -> Vec<(String, [ByteCount; 2])> {
        let counted = self.sessions.entry(session.to_owned()).or_default();
        counted.news(there, moved)
    }
}

impl CountedSession {
    fn news(
        &mut self,
        there: BTreeMap<u32, String>,
        moved: BTreeMap<u32, [ByteCount; 2]>,
    ) -> Vec<(String, [ByteCount; 2])> {
        self.names.extend(there);
        self.names.retain(|index, _| moved.contains_key(index));
        let names = self.names.iter();
        let of_link = |(index, name): (&u32, &String)| {
            let moved = moved.get(index)?;
            Some((name.clone(), self.seen.news(*index, *moved)))
        };
        names.filter_map(of_link).collect()
    }
}

/// The task that applies the rules to one client.
pub struct Keeping {
    rules: Arc<LinkRuleStore>,
    links: Links,
    counted: Arc<Mutex<Counted>>,
    watching: JoinHandle<()>,
}

impl Keeping {
    /// Ends the task: counts the client's traffic once more, and saves the accounts.
    pub async fn finish(self, client: &Client) {
        self.watching.abort();
        self.rules.count(client, &self.links, &self.counted);
        self.rules.write().await;
    }
}

impl Inner {
    fn of(config: &Config) -> Self {
        let links = config.links.iter();
        let rules = links.clone().map(|link| (link.name.clone(), link.rule));
        let currencies = links
            .clone()
            .map(|link| (link.name.clone(), link.currency.clone()));
        let leave_below = links.filter_map(|link| Some((link.name.clone(), link.leave_below?)));
        Self {
            rules: rules.collect(),
            currencies: currencies.collect(),
            signals: Signals::new(leave_below.collect()),
            ..Self::default()
        }
    }

    /// Adds new traffic of a link.
    fn enter(&mut self, name: &str, news: [ByteCount; 2]) {
        let reset_day = self.reset_day(name);
        self.accounts.enter(name, news, today(), reset_day);
    }

    fn reset_day(&self, name: &str) -> u8 {
        let allowance = self.rules.get(name).and_then(|rule| rule.allowance);
        allowance.map_or(1, |allowance| allowance.reset_day)
    }

    fn in_force(&self, today: Date) -> BTreeMap<String, LinkRules> {
        let rules = |(name, rule): (&String, &Rule)| {
            let usage = self.accounts.usage(name, today, self.reset_day(name));
            (name.clone(), rule.link_rules(&usage, today))
        };
        let mut all: BTreeMap<_, _> = self.rules.iter().map(rules).collect();
        for link in self.signals.to_leave() {
            let rules = all.entry(link.to_owned()).or_default();
            *rules = rules.while_fading();
        }
        all
    }

    fn allowed(&self, name: &str, today: Date) -> Option<LinkAllowed> {
        let rule = self.rules.get(name);
        let usage = self.accounts.usage(name, today, self.reset_day(name));
        if rule.is_none() && usage.up + usage.down == ByteCount::ZERO {
            return None;
        }
        let rule = rule.copied().unwrap_or_default();
        let (year, month, day) = usage.since.parts();
        let is_used_up = rule.left(&usage, today) == Some(ByteCount::ZERO);
        let limit = rule.allowance.filter(|_| is_used_up);
        let currency = self.currencies.get(name).map_or("", String::as_str);
        let cost = || format!("{:.2} {currency}", rule.cost(&usage, today));
        Some(LinkAllowed {
            up: rule.up,
            down: rule.down,
            since: format!("{year:04}-{month:02}-{day:02}"),
            sent_bytes: usage.up,
            received_bytes: usage.down,
            allowance_bytes: rule.allowance.map(|allowance| allowance.bytes),
            limit: limit.map(|allowance| at_limit(allowance.at_limit).to_owned()),
            cost: (rule.price > 0.0).then(|| cost().trim_end().to_owned()),
            price: (rule.price > 0.0).then(|| format!("{}{currency}/GB", rule.price)),
            // The configuration allows only whole numbers.
            weight: Some(rule.weight as u64),
        })
    }
}

fn open_ledger(state: &StateDir) -> Option<UsageDatabase> {
    let opened = UsageDatabase::open(&state.file(LEDGER));
    let (ledger, trouble) = opened
        .inspect_err(|error| tracing::warn!(%error, "usage is counted from zero at each start"))
        .ok()?;
    match trouble {
        Some(Trouble::SetAside(aside)) => {
            let aside = aside.display();
            tracing::warn!(
                "set aside a damaged usage database as {aside}, counting usage from zero"
            );
        }
        Some(Trouble::InMemory(error)) => {
            tracing::warn!(%error,
                "counting usage in memory until the usage database can be written");
        }
        None => {}
    }
    Some(ledger)
}

const fn at_limit(what: AtLimit) -> &'static str {
    match what {
        AtLimit::Stop => "stopped",
        AtLimit::Backup => "backup",
        AtLimit::Continue => "continues",
    }
}

pub(crate) fn today() -> Date {
    Date::after_1970(UnixTime::now().as_secs() / 86_400)
}

/// The usage database's file in the state directory.
const LEDGER: &str = StateFile::Usage.name();
const COUNT_EVERY: Duration = Duration::from_millis(500);
const COUNT_IDLE_EVERY: Duration = Duration::from_secs(2);
/// Traffic of an idle session between two counts is below this.
pub(crate) const QUIET: ByteCount = ByteCount::from_kib(4);
/// Number of counts between two writes to the usage database.
const WRITE_EVERY: u64 = 6;
const LITTLE_EVERY: Duration = Duration::from_secs(60);
const MUCH: ByteCount = ByteCount::from_kib(64);

#[cfg(test)]
mod tests;
