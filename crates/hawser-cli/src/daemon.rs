//! What the long-running commands have in common: one of them in a state directory, a control
//! socket, and books over what moves.

mod answers;
mod books;
mod counters;
mod events;
pub(crate) mod gateway;
mod link_books;
mod lock;
mod meter;
mod monitor;
mod picture;
pub(crate) mod proxy;
mod recording;
mod server;
pub(crate) mod service;
mod shown;
mod steer;
mod totals;
pub(crate) mod web;
mod why;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use hawser_control::{
    AllSessions, ConnectionsStatus, History, LinkStatus, PlacedReport, PolicyStatus, Request, Role,
};
use hawser_net::store::StateDir;
use hawser_session::SessionSnapshot;
use hawser_session::recorder::Recorder;
use hawser_types::{ByteCount, ChannelId, Instant, LinkIndex, StreamId};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use books::Books;
pub(crate) use counters::flat;
use events::Told;
use link_books::LinkBooks;
use lock::Lock;
use totals::Totals;
use why::milliseconds;
pub(crate) use why::since_1970;

use crate::daemon::proxy::placed::Which;
use crate::daemon::proxy::steer::Changed;
use crate::daemon::web::Served;
use crate::setup::asked_to_end;

/// The file name of the control socket in the state directory.
pub(crate) const SOCKET: &str = "control.sock";

/// What a daemon shows of itself.
pub(crate) trait Subject: Send + Sync + 'static {
    /// Its sessions whose names are `wanted`, each with at most `max_streams` of its streams. The others cost
    /// nothing.
    fn sessions(&self, wanted: &dyn Fn(&str) -> bool, max_streams: usize) -> Vec<View>;

    /// How many sessions it has.
    fn session_count(&self) -> usize;

    /// The programs that asked for these streams of the session with this name, as far as they are known
    /// by now. The others are looked for from then on.
    fn programs(&self, _session: &str, _streams: &[StreamId]) -> BTreeMap<StreamId, Arc<str>> {
        BTreeMap::new()
    }

    /// How many programs are being looked for, where that is done.
    fn sought(&self) -> Option<watch::Receiver<usize>> {
        None
    }

    /// The links of this machine.
    fn links(&self) -> Vec<LinkStatus>;

    /// How it places connections on links, where it does.
    fn connections(&self) -> Option<ConnectionsStatus> {
        None
    }

    /// What connections have moved over each link since the start that it has placed on links, by the
    /// links' names: sent and received.
    fn moved(&self) -> BTreeMap<String, [ByteCount; 2]> {
        BTreeMap::new()
    }

    /// How it chooses links, where it does.
    fn policy(&self) -> Option<PolicyStatus> {
        None
    }

    /// What it remembers of connections that it has placed on links, where it does that.
    fn placed(&self, _which: Which) -> Option<PlacedReport> {
        None
    }

    /// Does otherwise from now on what is asked to be done so, as a whole or not at all. May wait for
    /// the disk, for a moment. `None`: it can't do otherwise.
    fn change(&self, _asked: &Request) -> Option<Changed> {
        None
    }

    /// Lets `read` see what the session with this name has recorded. `false`: there is none.
    fn recorder(&self, session: &str, read: &mut dyn FnMut(&Recorder, Instant)) -> bool;

    /// What it has counted since it was started.
    fn counters(&self) -> BTreeMap<String, u64>;
}

/// One session of a daemon.
pub(crate) struct View {
    /// Tells it from others.
    pub(crate) id: String,
    /// Whose it is.
    pub(crate) peer: String,
    /// What is known of its ways, by the index of their links.
    pub(crate) ways: BTreeMap<u32, Way>,
    /// The policy that chooses links.
    pub(crate) scheduler: &'static str,
    /// The congestion control that its channels ask for.
    pub(crate) congestion: String,
    /// The addresses of this machine that its channels use, where its links are the far end's to know.
    pub(crate) addresses: BTreeMap<(ChannelId, LinkIndex), IpAddr>,
    /// Why there is no association, where one is wanted.
    pub(crate) transport_problem: Option<String>,
    /// The session; none while it is being made.
    pub(crate) session: Option<SessionSnapshot>,
}

impl View {
    /// The name of a link, or its number where the name is the far end's to know.
    pub(crate) fn link_name(&self, link: LinkIndex) -> String {
        match self.ways.get(&link.value()) {
            Some(way) if !way.link.is_empty() => way.link.clone(),
            _ => format!("#{}", link.value()),
        }
    }
}

/// What is known of one way to the far end beside its channels.
#[derive(Default)]
pub(crate) struct Way {
    pub(crate) link: String,
    pub(crate) address: Option<IpAddr>,
    pub(crate) remote: Option<SocketAddr>,
    pub(crate) problem: Option<String>,
}

/// A daemon in its state directory; dropping it removes the socket and lets the next one start.
pub(crate) struct Daemon {
    shared: Arc<Shared>,
    tasks: Vec<JoinHandle<()>>,
    _socket: server::SocketFile,
    _lock: Lock,
}

/// What those see who ask the daemon.
pub(crate) struct Shared {
    role: Role,
    started: tokio::time::Instant,
    listen: OnceLock<SocketAddr>,
    web: OnceLock<Served>,
    subject: OnceLock<Box<dyn Subject>>,
    record: Mutex<Record>,
    told: Mutex<Told>,
    /// Counts entries in the record, and events.
    changes: watch::Sender<u64>,
    stop: Notify,
}

/// What is written down of what moves.
#[derive(Default)]
struct Record {
    sessions: Books,
    totals: Totals,
    /// As of the last look for what has changed.
    all_sessions: AllSessions,
    links: LinkBooks,
    history: History,
}

impl Daemon {
    /// Takes the state directory and opens the control socket. Fails when another daemon runs
    /// there.
    pub(crate) fn start(state: &StateDir, role: Role) -> anyhow::Result<Self> {
        state.prepare()?;
        let lock = Lock::take(state, role)?;
        let (listener, socket) = server::listen(&state.file(SOCKET))?;
        let shared = Arc::new(Shared::new(role));
        let tasks = vec![
            tokio::spawn(server::serve(listener, Arc::clone(&shared))),
            tokio::spawn(keep_record(Arc::clone(&shared))),
            tokio::spawn(events::watch(Arc::clone(&shared))),
        ];
        Ok(Self {
            shared,
            tasks,
            _socket: socket,
            _lock: lock,
        })
    }

    /// From now on the daemon shows this. Once only.
    pub(crate) fn show(&self, subject: impl Subject) {
        let _ = self.shared.subject.set(Box::new(subject));
        self.shared.enter();
        self.shared.notice();
    }

    /// The daemon takes connections at this address. Once only.
    pub(crate) fn set_listen(&self, listen: SocketAddr) {
        let _ = self.shared.listen.set(listen);
        service::ready(listen);
    }

    /// Resolves when the program is asked to end, by a signal or over the socket.
    pub(crate) async fn asked_to_end(&self) {
        tokio::select! {
            () = asked_to_end() => {}
            () = self.shared.stop.notified() => {}
        }
        service::stopping();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Shared {
    fn new(role: Role) -> Self {
        Self {
            role,
            started: tokio::time::Instant::now(),
            listen: OnceLock::new(),
            web: OnceLock::new(),
            subject: OnceLock::new(),
            record: Mutex::default(),
            told: Mutex::default(),
            changes: watch::Sender::new(0),
            stop: Notify::new(),
        }
    }

    /// Writes down how much has moved by now.
    fn enter(&self) {
        let Some(subject) = self.subject.get() else {
            return;
        };
        let (views, placed) = (self.all_views(&**subject), subject.moved());
        let (mut links, connections) = (subject.links(), subject.connections());
        let mut record = self.record();
        let span = record.sessions.enter(tokio::time::Instant::now(), &views);
        record.totals.enter(&views);
        record.links.enter(span, (&views, &placed), &links);
        record.links.fill(&mut links, connections.as_ref());
        record.history.enter(milliseconds(since_1970()), &links);
        drop(record);
        self.has_changed();
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Enters every second what has moved.
async fn keep_record(shared: Arc<Shared>) {
    let mut ticks = tokio::time::interval(History::EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        shared.enter();
        // Neither the runtime nor a session stands still.
        service::alive();
    }
}
