//! The daemons `hawser up` and `hawser serve`: one daemon for each state directory, a control
//! socket, and accounts of the traffic.
//!
//! - The client's end: `up/settings.rs` checks the configuration, `up/parts.rs` starts the parts in
//!   `proxy/` in order and ends them in reverse, `up/machine.rs` takes what only one process can
//!   have, `up/serving.rs` connects them with the port and with what is shown (`up/subject.rs`).
//! - The gateway: `serve.rs` plans it, and `gateway/far_end.rs` runs it; `hawser receive` does too.
//! - The control socket: `server.rs` takes requests, `answers.rs` answers, `up/subject/steer.rs`
//!   changes what runs, `events.rs` finds changes, `picture.rs` makes snapshots of sessions.
//! - Packets: `proxy/packets.rs` for the machine, `proxy/lan.rs` for hosts behind it,
//!   `gateway/packets.rs` at the gateway.
//! - An upgrade: `takeover/successor.rs` starts the new process and gives it sockets and lock,
//!   which `takeover/predecessor.rs` takes there; `up/machine.rs` and `gateway/packets.rs` give up
//!   what only one process can have.
//! - Signals of links: `proxy/agent.rs`; standby links: `proxy/agent/connecting.rs`.
//! - Files: `config_file.rs` finds the configuration, `rule_files.rs` reads rules, `toml_file.rs`
//!   edits files and keeps what users have written there.
#![forbid(unsafe_code)]

mod answers;
mod books;
mod change_log;
mod clock;
pub mod config_file;
mod counters;
pub mod dashboard;
mod events;
mod far_reasons;
pub mod gateway;
pub mod group_socket;
mod guard;
mod handshake;
pub mod kill_switch;
mod link_books;
mod lock;
mod meter;
mod monitor;
mod packet_flows;
mod picture;
pub mod proxy;
mod recording;
pub mod refusal;
pub mod rule_files;
pub mod serve;
mod server;
mod service;
pub mod setup;
mod shown;
mod state;
mod steer;
mod subject;
mod takeover;
pub mod toml_file;
mod totals;
pub mod up;
mod web;
mod why;

use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::sync::{Arc, OnceLock};

use anyhow::Context as _;
use hawser_control::{History, Role};
use hawser_keys::store::StateDir;
use hawser_link::start_up_memory;
use hawser_net::thread_memory;
use hawser_net::ticks::Ticks;
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::setup::{EndSignals, Setup};
use lock::Lock;
use server::For;
pub use server::SOCKET;
use state::State;
use subject::Subject;
use takeover::{MAX_WISHES, Places, Predecessor, Successor, Takeover, Wanted};

/// A daemon in its state directory; dropping it removes the socket and lets the next one start.
pub struct Daemon {
    state: Arc<State>,
    folder: StateDir,
    tasks: Mutex<Vec<JoinHandle<()>>>,
    /// True once a signal or a request over the socket asks the daemon to end.
    is_asked: watch::Sender<bool>,
    /// Task that sets `is_asked`; started by [`Self::heed`].
    heeding: OnceLock<JoinHandle<()>>,
    sockets: Mutex<Vec<server::SocketFile>>,
    lock: Lock,
    /// True once another process has taken over.
    retired: watch::Sender<bool>,
    /// The process that this one takes over from, if it was started for that.
    predecessor: Option<Arc<Predecessor>>,
}

/// A request to a daemon.
pub(crate) enum Asked {
    /// To end in order.
    ToEnd,
    /// To yield the resources that only one process can have, since a new process takes over.
    ToYield(Box<Takeover>),
}

/// Receiver of requests to the daemon.
pub(crate) struct Asking<'a> {
    daemon: &'a Daemon,
    wanted: mpsc::Receiver<Wanted>,
}

impl Daemon {
    /// Takes the state directory and opens the control socket. Fails when another daemon runs
    /// there.
    pub fn start(folder: &StateDir, role: Role) -> anyhow::Result<Self> {
        Self::succeed(folder, role, None)
    }

    /// Like [`Self::start`], or takes over from the process that started this one for that. In a
    /// takeover, the old process keeps the control socket until this one accepts connections.
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

    /// Opens the control sockets and begins to answer requests.
    fn open_sockets(&self) -> anyhow::Result<()> {
        let (listener, socket) = server::listen(&self.folder.file(SOCKET))?;
        let serve = |listener, whom| {
            let serve = server::serve(listener, whom, Arc::clone(&self.state));
            self.tasks.lock().push(tokio::spawn(serve));
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
                tracing::warn!("can't open the control socket of the group {group}: {error:#}");
            }
        }
        *self.sockets.lock() = sockets;
        Ok(())
    }

    /// Lets a new process serve. Call after this process has yielded the resources that only one
    /// can have. Returns `None` if the new process fails: then this process takes the resources
    /// back.
    pub(crate) async fn hand_on(&self, takeover: Takeover) -> Option<Successor> {
        match takeover.complete().await {
            Ok(served) => {
                self.retire();
                service::is_main(served.process_id);
                Some(served.tell())
            }
            Err(failed) => {
                // The new process may have replaced the sockets' files.
                self.open_sockets_again();
                failed.tell();
                None
            }
        }
    }

    fn open_sockets_again(&self) {
        if let Err(error) = self.open_sockets() {
            tracing::error!("can't reopen the control socket: {error:#}");
        }
    }

    /// Stops answering requests and keeping records: another process does that from now on.
    fn retire(&self) {
        self.retired.send_replace(true);
        self.tasks.lock().drain(..).for_each(|task| task.abort());
    }

    /// Waits until another process has taken over.
    pub(crate) fn retired(&self) -> impl Future<Output = ()> + use<> {
        let mut retired = self.retired.subscribe();
        async move {
            // A daemon that ends without a takeover never retires.
            if retired.wait_for(|retired| *retired).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Returns the process that this one takes over from.
    pub(crate) fn predecessor(&self) -> Option<&Predecessor> {
        self.predecessor.as_deref()
    }

    /// Makes the predecessor yield the resources that only one process can have. Returns at once if
    /// there is no predecessor.
    pub(crate) async fn take_over(&self) -> anyhow::Result<()> {
        match &self.predecessor {
            Some(predecessor) => predecessor.yields().await,
            None => Ok(()),
        }
    }

    /// Sets the [`Subject`], the parts that the daemon shows and changes. Call once.
    pub(crate) fn show(&self, subject: impl Subject) {
        self.state.show(subject);
        self.state.enter();
        self.state.notice();
    }

    /// Sets the address at which hosts that are known by name connect to the daemon. Call once.
    pub(crate) fn set_door(&self, door: SocketAddr) {
        self.state.set_door(door);
    }

    /// Sets the address at which the daemon accepts connections. Call once. From then on the daemon
    /// ends in order when it is asked to.
    ///
    /// # Errors
    /// In a takeover, if the control socket can't be opened or the old process can't be told.
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

    /// Returns a receiver of requests to the daemon. From then on it can be upgraded. Call once.
    pub(crate) fn requests(&self) -> Asking<'_> {
        let (wishes, wanted) = mpsc::channel(MAX_WISHES);
        self.state.take_wishes(wishes);
        Asking {
            daemon: self,
            wanted,
        }
    }

    /// Resolves when a signal or a request over the socket asks the program to end.
    pub(crate) async fn asked_to_end(&self) {
        self.heed();
        // The sender lives as long as the daemon.
        let _ = self.is_asked.subscribe().wait_for(|asked| *asked).await;
        if !*self.retired.borrow() {
            service::stopping();
        }
    }

    /// Makes signals end the daemon in order from now on.
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
    /// Waits for the next request. Refuses upgrades that are not possible itself.
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

impl Drop for Daemon {
    fn drop(&mut self) {
        self.retire();
        self.heeding.get().into_iter().for_each(JoinHandle::abort);
    }
}

/// Records the traffic every second.
async fn keep_record(state: Arc<State>) {
    let mut ticks = Ticks::every(History::EVERY);
    loop {
        ticks.tick().await;
        state.enter();
        // Reached in time only if the runtime and the sessions make progress.
        service::alive();
    }
}
