//! What the long-running commands have in common: one of them in a state directory, a control
//! socket, and books over what moves.

mod books;
mod counters;
mod lock;
mod picture;
mod recording;
mod server;
mod why;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use hawser_control::{ConnectionsStatus, LinkStatus, LinkUse, PlacedReport, Role, StatusSnapshot};
use hawser_net::store::StateDir;
use hawser_session::SessionSnapshot;
use hawser_session::recorder::Recorder;
use hawser_types::{Instant, LinkIndex};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use books::Books;
pub(crate) use counters::flat;
use lock::Lock;
pub(crate) use why::since_1970;

use crate::placed::Which;
use crate::setup::asked_to_end;

/// The file name of the control socket in the state directory.
pub(crate) const SOCKET: &str = "control.sock";

/// What a daemon shows of itself.
pub(crate) trait Subject: Send + Sync + 'static {
    /// Its sessions, each with at most `max_streams` of its streams.
    fn sessions(&self, max_streams: usize) -> Vec<View>;

    /// The links of this machine.
    fn links(&self) -> Vec<LinkStatus>;

    /// How it places connections on links, where it does.
    fn connections(&self) -> Option<ConnectionsStatus> {
        None
    }

    /// What it remembers of connections that it has placed on links, where it does that.
    fn placed(&self, _which: Which) -> Option<PlacedReport> {
        None
    }

    /// Uses a link otherwise from now on; what is `None` stays as it is. Whether it can.
    fn set_link(&self, _name: &str, _up: Option<LinkUse>, _down: Option<LinkUse>) -> bool {
        false
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
    pub(crate) address: Option<std::net::IpAddr>,
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

/// What the control socket's connections see.
struct Shared {
    role: Role,
    started: tokio::time::Instant,
    listen: OnceLock<SocketAddr>,
    subject: OnceLock<Box<dyn Subject>>,
    books: Mutex<Books>,
    stop: Notify,
}

impl Daemon {
    /// Takes the state directory and opens the control socket. Fails when another daemon runs
    /// there.
    pub(crate) fn start(state: &StateDir, role: Role) -> anyhow::Result<Self> {
        state.prepare()?;
        let lock = Lock::take(state, role)?;
        let (listener, socket) = server::listen(&state.file(SOCKET))?;
        let shared = Arc::new(Shared {
            role,
            started: tokio::time::Instant::now(),
            listen: OnceLock::new(),
            subject: OnceLock::new(),
            books: Mutex::default(),
            stop: Notify::new(),
        });
        let tasks = vec![
            tokio::spawn(server::serve(listener, Arc::clone(&shared))),
            tokio::spawn(keep_books(Arc::clone(&shared))),
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
    }

    /// The daemon takes connections at this address. Once only.
    pub(crate) fn set_listen(&self, listen: SocketAddr) {
        let _ = self.shared.listen.set(listen);
    }

    /// Resolves when the program is asked to end, by a signal or over the socket.
    pub(crate) async fn asked_to_end(&self) {
        tokio::select! {
            () = asked_to_end() => {}
            () = self.shared.stop.notified() => {}
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Shared {
    fn status(&self) -> StatusSnapshot {
        let subject = self.subject.get();
        let views = subject.map_or_else(Vec::new, |subject| subject.sessions(MAX_STREAMS));
        let now = tokio::time::Instant::now();
        let books = self.books.lock().unwrap_or_else(PoisonError::into_inner);
        let sessions: Vec<_> = views
            .into_iter()
            .map(|view| picture::session(view, &books, now))
            .collect();
        drop(books);
        StatusSnapshot {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            role: self.role,
            process_id: std::process::id(),
            uptime: self.started.elapsed(),
            listen: self.listen.get().copied().into_iter().collect(),
            links: subject.map(|subject| subject.links()).unwrap_or_default(),
            connections: subject.and_then(|subject| subject.connections()),
            session_count: sessions.len() as u64,
            counters: subject
                .map(|subject| subject.counters())
                .unwrap_or_default(),
            memory: picture::memory(&sessions),
            sessions,
        }
    }
}

/// Writes down once a second how much has moved.
async fn keep_books(shared: Arc<Shared>) {
    let mut tick = tokio::time::interval(BOOKS_PERIOD);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        if let Some(subject) = shared.subject.get() {
            let views = subject.sessions(0);
            let mut books = shared.books.lock().unwrap_or_else(PoisonError::into_inner);
            books.enter(tokio::time::Instant::now(), &views);
        }
    }
}

const BOOKS_PERIOD: Duration = Duration::from_secs(1);
/// Streams shown of each session.
const MAX_STREAMS: usize = 500;
