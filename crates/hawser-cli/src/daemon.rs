//! Common parts of the long-running commands: one daemon for each state directory, a control
//! socket, and accounts of the traffic.

mod answers;
mod books;
mod change_log;
pub(crate) mod clock;
pub(crate) mod counters;
pub(crate) mod dashboard;
mod events;
mod far_reasons;
pub(crate) mod gateway;
pub(crate) mod group_socket;
mod guard;
pub(crate) mod handshake;
mod link_books;
mod lock;
mod meter;
mod monitor;
mod packet_flows;
mod picture;
pub(crate) mod proxy;
mod recording;
pub(crate) mod refusal;
mod server;
pub(crate) mod service;
mod shown;
mod state;
mod steer;
pub(crate) mod subject;
pub(crate) mod takeover;
mod totals;
pub(crate) mod web;
pub(crate) mod why;

use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use anyhow::Context as _;
use hawser_control::{History, Role};
use hawser_net::start_up_memory;
use hawser_net::store::StateDir;
use hawser_net::thread_memory;
use hawser_net::ticks::Ticks;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::setup::{EndSignals, Setup};
use lock::Lock;
use server::For;
pub(crate) use server::SOCKET;
use state::State;
use subject::Subject;
use takeover::{MAX_WISHES, Places, Predecessor, Successor, Takeover, Wanted};

/// A daemon in its state directory; dropping it removes the socket and lets the next one start.
pub(crate) struct Daemon {
    state: Arc<State>,
    folder: StateDir,
    tasks: Mutex<Vec<JoinHandle<()>>>,
    /// True once the daemon is asked to end, by a signal or over the socket.
    is_asked: watch::Sender<bool>,
    /// Waits for that, from when it is first cared for.
    heeding: OnceLock<JoinHandle<()>>,
    sockets: Mutex<Vec<server::SocketFile>>,
    lock: Lock,
    /// True once another process has taken over.
    retired: watch::Sender<bool>,
    /// The process whose place this one takes, if it was started for that.
    predecessor: Option<Arc<Predecessor>>,
}

/// What a daemon is asked.
pub(crate) enum Asked {
    /// To end in order.
    ToEnd,
    /// To give up what only one process can have, since another one takes its place.
    ToYield(Box<Takeover>),
}

/// What a daemon is asked from now on.
pub(crate) struct Asking<'a> {
    daemon: &'a Daemon,
    wanted: mpsc::Receiver<Wanted>,
}

impl Daemon {
    /// Takes the state directory and opens the control socket. Fails when another daemon runs
    /// there.
    pub(crate) fn start(folder: &StateDir, role: Role) -> anyhow::Result<Self> {
        Self::succeed(folder, role, None)
    }

    /// Likewise, in the place of the process that has started this one for that, if one has: the
    /// control socket is that one's until this one takes connections.
    pub(crate) async fn of(setup: &Setup, folder: &StateDir, role: Role) -> anyhow::Result<Self> {
        let predecessor = if setup.is_taking_over {
            Some(Predecessor::meet().await.context("--taking-over")?)
        } else {
            None
        };
        Self::succeed(folder, role, predecessor)
    }

    fn succeed(
        folder: &StateDir,
        role: Role,
        predecessor: Option<Predecessor>,
    ) -> anyhow::Result<Self> {
        folder.prepare()?;
        let predecessor = predecessor.map(Arc::new);
        let held = predecessor.as_ref().and_then(|it| it.take_lock());
        let lock = match held {
            Some(held) => Lock::inherit(held, role),
            None => Lock::take(folder, role)?,
        };
        let state = Arc::new(State::new(role, predecessor.clone()));
        let tasks = vec![
            tokio::spawn(keep_record(Arc::clone(&state))),
            tokio::spawn(events::watch(Arc::clone(&state))),
            tokio::spawn(thread_memory::trim_regularly()),
            tokio::spawn(start_up_memory::release_after_start()),
        ];
        let daemon = Self {
            state,
            folder: folder.clone(),
            tasks: Mutex::new(tasks),
            is_asked: watch::Sender::new(false),
            heeding: OnceLock::new(),
            sockets: Mutex::default(),
            lock,
            retired: watch::Sender::new(false),
            predecessor,
        };
        if daemon.predecessor.is_none() {
            daemon.open_sockets()?;
        }
        Ok(daemon)
    }

    /// Takes questions from now on.
    fn open_sockets(&self) -> anyhow::Result<()> {
        let (listener, socket) = server::listen(&self.folder.file(SOCKET))?;
        let serve = |listener, whom| {
            let serve = server::serve(listener, whom, Arc::clone(&self.state));
            lock(&self.tasks).push(tokio::spawn(serve));
        };
        serve(listener, For::Owner);
        let mut sockets = vec![socket];
        match group_socket::listen(&self.folder) {
            Ok(Some((listener, socket))) => {
                sockets.push(socket);
                serve(listener, For::Group);
            }
            Ok(None) => {}
            Err(error) => {
                let group = group_socket::GROUP;
                tracing::warn!("the group {group} can't ask this daemon: {error:#}");
            }
        }
        *lock(&self.sockets) = sockets;
        Ok(())
    }

    /// Lets a new process serve, as what only one can have is given up; none where it does not come
    /// to that: then all is this one's again.
    pub(crate) async fn hand_on(&self, takeover: Takeover) -> Option<Successor> {
        match takeover.complete().await {
            Ok(served) => {
                self.retire();
                service::is_main(served.process_id);
                Some(served.tell())
            }
            Err(failed) => {
                // It may have taken the names of the sockets.
                self.open_sockets_again();
                failed.tell();
                None
            }
        }
    }

    fn open_sockets_again(&self) {
        if let Err(error) = self.open_sockets() {
            tracing::error!("nobody can ask this daemon any more: {error:#}");
        }
    }

    /// Another process answers questions, and keeps records, from now on.
    fn retire(&self) {
        self.retired.send_replace(true);
        lock(&self.tasks).drain(..).for_each(|task| task.abort());
    }

    /// Waits until another process has taken over.
    pub(crate) fn retired(&self) -> impl Future<Output = ()> + use<> {
        let mut retired = self.retired.subscribe();
        async move {
            // One that ends does not retire.
            if retired.wait_for(|retired| *retired).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// The process whose place this one takes.
    pub(crate) fn predecessor(&self) -> Option<&Predecessor> {
        self.predecessor.as_deref()
    }

    /// Has the predecessor give up what only one process can have. Returns at once where there is
    /// none.
    pub(crate) async fn take_over(&self) -> anyhow::Result<()> {
        match &self.predecessor {
            Some(predecessor) => predecessor.yields().await,
            None => Ok(()),
        }
    }

    /// From now on the daemon shows this. Once only.
    pub(crate) fn show(&self, subject: impl Subject) {
        self.state.show(subject);
        self.state.enter();
        self.state.notice();
    }

    /// Hosts that are known by name come to the daemon at this address. Once only.
    pub(crate) fn set_door(&self, door: SocketAddr) {
        self.state.set_door(door);
    }

    /// The daemon takes connections at this address. Once only. Who hears of it may ask the daemon
    /// to end, which it does in order from now on.
    ///
    /// # Errors
    /// Where it takes another's place, and nobody could ask it.
    pub(crate) async fn set_listen(&self, listen: SocketAddr) -> anyhow::Result<()> {
        self.heed();
        self.state.set_listen(listen);
        if let Some(predecessor) = &self.predecessor {
            self.open_sockets()?;
            predecessor.is_succeeded().await?;
        }
        service::ready(listen);
        Ok(())
    }

    /// What the daemon is asked from now on. It can be replaced, too. Once only.
    pub(crate) fn asking(&self) -> Asking<'_> {
        let (wishes, wanted) = mpsc::channel(MAX_WISHES);
        self.state.take_wishes(wishes);
        Asking {
            daemon: self,
            wanted,
        }
    }

    /// Resolves when the program is asked to end, by a signal or over the socket.
    pub(crate) async fn asked_to_end(&self) {
        self.heed();
        // It lives as long as this.
        let _ = self.is_asked.subscribe().wait_for(|asked| *asked).await;
        if !*self.retired.borrow() {
            service::stopping();
        }
    }

    /// From now on signals are requests to end in order.
    fn heed(&self) {
        self.heeding.get_or_init(|| {
            let signals = EndSignals::heed();
            let (state, is_asked) = (Arc::clone(&self.state), self.is_asked.clone());
            tokio::spawn(async move {
                tokio::select! {
                    () = signals.asked_to_end() => {}
                    () = state.stopped() => {}
                }
                is_asked.send_replace(true);
            })
        });
    }
}

impl Asking<'_> {
    /// Waits for what it is asked next; what is not to be is answered here.
    pub(crate) async fn next(&mut self) -> Asked {
        let Self { daemon, wanted } = self;
        let yielding = async {
            loop {
                let Some(wanted) = wanted.recv().await else {
                    return std::future::pending().await;
                };
                if let Some(left) = daemon.predecessor().and_then(Predecessor::left) {
                    wanted.refuse(&left);
                    continue;
                }
                let (state, lock) = (&daemon.state, daemon.lock.as_fd());
                let places = Places {
                    listen: state.listen(),
                    door: state.door(),
                };
                if let Some(takeover) = Takeover::begin(wanted, places, lock).await {
                    return takeover;
                }
            }
        };
        tokio::select! {
            () = daemon.asked_to_end() => Asked::ToEnd,
            takeover = yielding => Asked::ToYield(Box::new(takeover)),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.retire();
        self.heeding.get().into_iter().for_each(JoinHandle::abort);
    }
}

/// Enters every second what has moved.
async fn keep_record(state: Arc<State>) {
    let mut ticks = Ticks::every(History::EVERY);
    loop {
        ticks.tick().await;
        state.enter();
        // Neither the runtime nor a session stands still.
        service::alive();
    }
}
