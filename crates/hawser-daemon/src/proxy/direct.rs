//! Connection mode of `hawser up`: the director, and the tasks that keep it up to date.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hawser_config::Config;
use hawser_control::{ConnectionsStatus, PlacingStatus};
use hawser_director::LinkReport;
use hawser_front::bonded::BondDialer;
use hawser_front::connection::{DatagramPlace, ProbeBudget, Prober, SharedDirector};
use hawser_front::datagram::DirectPorts;
use hawser_front::dialer::ConnectionDialer;
use hawser_front::peer::Peers;
use hawser_keys::unix_time::UnixTime;
use hawser_link::links::{DefaultRouteMonitor, default_routes, read_counters};
use hawser_net::ticks::Ticks;
use hawser_path::{KnownLink, LinkKey};
use hawser_policy::RuleSet;
use hawser_sched::{DemandEstimate, DemandKey};
use hawser_types::ByteCount;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::proxy::by_gateway;
use crate::proxy::links::Links;
use crate::proxy::rules::{LinkRuleStore, SharedLedger, today};

/// The rules for connections, as they change.
pub type ConnectionRules = watch::Receiver<Arc<RuleSet>>;

/// A director, with its tasks.
pub struct Direct {
    director: SharedDirector,
    books: Books,
    mptcp: bool,
    tasks: Vec<JoinHandle<()>>,
}

impl Direct {
    /// Starts to direct connections over `links`, or over those of them that the configuration
    /// names.
    pub async fn start(
        config: &Config,
        links: Links,
        rules: &Arc<LinkRuleStore>,
        rules_for_connections: ConnectionRules,
    ) -> Self {
        let director = SharedDirector::new(config.connection.scheduler, config.up.links.clone());
        director.set_link_rules(rules.for_director());
        director.set_links(&links.borrow());
        director.set_rules(Arc::clone(&rules_for_connections.borrow()));
        note_routes(&director).await;
        let memory = Memory::of(rules.ledger());
        memory.load_into(&director);
        let books = Books {
            director: director.clone(),
            rules: Arc::clone(rules),
            memory,
        };
        let tasks = vec![
            tokio::spawn(follow(director.clone(), links)),
            tokio::spawn(follow_routes(director.clone())),
            tokio::spawn(obey(director.clone(), rules_for_connections)),
            tokio::spawn(measure(director.clone())),
            tokio::spawn(keep(books.clone())),
            tokio::spawn(probe(director.clone(), config, rules.ledger())),
        ];
        Self {
            director,
            books,
            mptcp: config.connection.mptcp,
            tasks,
        }
    }

    /// Returns the director.
    pub fn director(&self) -> SharedDirector {
        self.director.clone()
    }

    /// Returns a dialer over the links that the director chooses, and over the gateway and peers if
    /// given.
    pub fn dialer(&self, gateway: Option<BondDialer>, peers: Option<Peers>) -> ConnectionDialer {
        ConnectionDialer::new(self.director.clone(), self.mptcp, gateway, peers)
    }

    /// Returns ports that carry datagrams as the director decides.
    pub(crate) fn datagrams(&self) -> DirectPorts<DatagramPlace> {
        DirectPorts::new(self.director.clone())
    }

    /// Ends the tasks, and saves the counters and estimates that are not saved yet.
    pub async fn finish(self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        self.books.write().await;
        self.books.rules.write().await;
    }
}

/// Returns the director's state in the form of the control API; `over_peers` is the number of
/// connections that used sessions with their destinations.
pub(crate) fn status(director: &SharedDirector, over_peers: u64) -> ConnectionsStatus {
    let report = director.report();
    let placing = |link: &LinkReport| PlacingStatus {
        name: link.link.name.clone(),
        index: link.link.index,
        state: link.health.name().to_owned(),
        silent: link.suspect_for,
        unheard: link.unheard_for,
        up: link.up,
        down: link.down,
        up_confidence: link.confidence[0],
        down_confidence: link.confidence[1],
        latency: (!link.latency.is_zero()).then_some(link.latency),
        up_loss: link.loss,
        up_loss_confidence: link.loss_confidence,
        open: link.open,
        active: link.load.connections.into(),
        up_bytes: link.load.up,
        down_bytes: link.load.down,
        placed: link.opened,
    };
    let mut left_to: Vec<String> = report.tunnels.into_iter().flatten().collect();
    left_to.dedup();
    ConnectionsStatus {
        left_to,
        scheduler: report.policy.name().to_owned(),
        placed: report.opened,
        moved_over: report.moved_over,
        unanswered: report.unanswered,
        gateway: report.gateway.as_ref().map(by_gateway::status),
        over_peers,
        not_bonded: Vec::new(),
        discovered: Vec::new(),
        vouched: Vec::new(),
        not_asked: Vec::new(),
        links: report.links.iter().map(placing).collect(),
    }
}

async fn follow(director: SharedDirector, mut links: Links) {
    while links.changed().await.is_ok() {
        director.set_links(&links.borrow_and_update());
        note_routes(&director).await;
    }
}

/// Reads the default routes again when only they change: a link may lead to another network
/// with the same address.
async fn follow_routes(director: SharedDirector) {
    match DefaultRouteMonitor::start().await {
        Ok(mut monitor) => loop {
            monitor.changed().await;
            // Reads the current routes: the director may know other routes by now.
            note_routes(&director).await;
        },
        Err(error) => tracing::warn!(%error, "can't follow changes of the default routes"),
    }
}

/// Reports to the director which network each link is attached to, and which the system prefers.
async fn note_routes(director: &SharedDirector) {
    match default_routes().await {
        Ok(routes) => director.set_default_routes(routes),
        Err(error) => tracing::warn!(%error, "the default routes can't be listed now"),
    }
}

/// Supervises open connections: reads the interfaces' counters, and ends connections that wait for
/// a link that is gone.
async fn measure(director: SharedDirector) {
    let mut ticks = Ticks::every(COUNT_EVERY);
    loop {
        ticks.tick().await;
        if director.with(|director, _| director.open_count()) == 0 {
            ticks.put_off(COUNT_IDLE_EVERY);
            continue;
        }
        director.end_stranded();
        match read_counters().await {
            Ok(counters) => director.handle_counters(&counters),
            Err(error) => tracing::debug!(%error, "the links' counters can't be read now"),
        }
    }
}

/// Probes the links with the servers that the user has named.
fn probe(
    director: SharedDirector,
    config: &Config,
    ledger: Option<SharedLedger>,
) -> impl Future<Output = ()> + use<> {
    let budget = Budget {
        ledger,
        daily: config.connection.probe_budget,
    };
    Prober::new(director, &config.connection, budget).run()
}

/// Bytes that measurements may still move today, by the usage database. Without a usage database,
/// measurements are not allowed.
struct Budget {
    ledger: Option<SharedLedger>,
    daily: ByteCount,
}

impl ProbeBudget for Budget {
    fn take(&self, link: &str, bytes: ByteCount) -> bool {
        let Some(ledger) = &self.ledger else {
            return false;
        };
        let taken = ledger
            .lock()
            .take_for_probe(link, today(), bytes, self.daily);
        taken.unwrap_or_else(|error| {
            tracing::warn!(link, %error,
                "can't charge a measurement to the link's daily budget, skipping it");
            false
        })
    }
}

/// Saves counters and estimates.
#[derive(Clone)]
struct Books {
    director: SharedDirector,
    rules: Arc<LinkRuleStore>,
    memory: Memory,
}

impl Books {
    async fn write(&self) {
        self.rules.enter(&self.director.moved()).await;
        let learned = self.director.with(|director, _| director.take_learned());
        let rates = self.director.with(|director, _| director.take_rates());
        self.memory.keep(learned, rates).await;
    }
}

async fn keep(books: Books) {
    let mut ticks = Ticks::every(WRITE_EVERY);
    let mut changes = books.rules.changes();
    loop {
        tokio::select! {
            _ = ticks.tick() => books.write().await,
            _ = changes.changed() => {}
        }
        // An allowance may be used up by now, or a signal may be fading.
        books.director.set_link_rules(books.rules.for_director());
    }
}

async fn obey(director: SharedDirector, mut rules: ConnectionRules) {
    while rules.changed().await.is_ok() {
        let rules = Arc::clone(&rules.borrow_and_update());
        director.set_rules(rules);
    }
}

/// Loads and saves the estimates that are kept from one run to the next; does nothing without a
/// usage database.
#[derive(Clone)]
struct Memory {
    ledger: Option<SharedLedger>,
    /// The latest write has failed.
    is_failing: Arc<AtomicBool>,
}

impl Memory {
    fn of(ledger: Option<SharedLedger>) -> Self {
        Self {
            ledger,
            is_failing: Arc::default(),
        }
    }

    fn load_into(&self, director: &SharedDirector) {
        let Some(ledger) = &self.ledger else {
            return;
        };
        let ledger = ledger.lock();
        match ledger.rates(UnixTime::now().as_secs()) {
            Ok(rates) => director.load_rates(rates),
            Err(error) => {
                tracing::warn!(%error, "the measured rates of links can't be read; they are measured again");
            }
        }
        match ledger.demands() {
            Ok(demands) => director.load_demands(demands),
            Err(error) => {
                tracing::warn!(%error, "the learned needs of applications can't be read; they are learned again");
            }
        }
    }

    async fn keep(
        &self,
        learned: BTreeMap<DemandKey, DemandEstimate>,
        rates: BTreeMap<LinkKey, KnownLink>,
    ) {
        let is_nothing = learned.is_empty() && rates.is_empty();
        let Some(ledger) = self.ledger.clone().filter(|_| !is_nothing) else {
            return;
        };
        let now = UnixTime::now().as_secs();
        // Waits for the disk.
        let writing = tokio::task::spawn_blocking(move || {
            let mut ledger = ledger.lock();
            ledger.keep_rates(&rates, now)?;
            ledger.keep_demands(&learned, now)
        });
        match writing.await {
            Ok(Ok(())) => self.is_failing.store(false, Ordering::Relaxed),
            // The estimates of the same applications and links are saved with the next ones.
            Ok(Err(error)) => {
                if !self.is_failing.swap(true, Ordering::Relaxed) {
                    tracing::warn!(%error,
                        "can't save the rates of links and the needs of applications");
                }
            }
            Err(error) => tracing::warn!(%error, "task that writes the usage database failed"),
        }
    }
}

const COUNT_EVERY: Duration = Duration::from_millis(500);
const COUNT_IDLE_EVERY: Duration = Duration::from_secs(2);
const WRITE_EVERY: Duration = Duration::from_secs(3);
