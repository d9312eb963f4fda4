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
mod totals;
pub(crate) mod web;
pub(crate) mod why;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hawser_control::{History, Role};
use hawser_net::store::StateDir;
use hawser_net::thread_memory;
use hawser_net::ticks::Ticks;
use tokio::task::JoinHandle;

use crate::setup::EndSignals;
use lock::Lock;
use server::For;
pub(crate) use server::SOCKET;
use state::State;
use subject::Subject;

/// A daemon in its state directory; dropping it removes the socket and lets the next one start.
pub(crate) struct Daemon {
    state: Arc<State>,
    tasks: Vec<JoinHandle<()>>,
    /// From when it is said that the daemon takes connections, until it waits for them.
    end_signals: Mutex<Option<EndSignals>>,
    _sockets: Vec<server::SocketFile>,
    _lock: Lock,
}

impl Daemon {
    /// Takes the state directory and opens the control socket. Fails when another daemon runs
    /// there.
    pub(crate) fn start(folder: &StateDir, role: Role) -> anyhow::Result<Self> {
        folder.prepare()?;
        let lock = Lock::take(folder, role)?;
        let (listener, socket) = server::listen(&folder.file(SOCKET))?;
        let state = Arc::new(State::new(role));
        let mut sockets = vec![socket];
        let mut tasks = vec![
            tokio::spawn(server::serve(listener, For::Owner, Arc::clone(&state))),
            tokio::spawn(keep_record(Arc::clone(&state))),
            tokio::spawn(events::watch(Arc::clone(&state))),
            tokio::spawn(thread_memory::trim_regularly()),
        ];
        match group_socket::listen(folder) {
            Ok(Some((listener, socket))) => {
                sockets.push(socket);
                let serve = server::serve(listener, For::Group, Arc::clone(&state));
                tasks.push(tokio::spawn(serve));
            }
            Ok(None) => {}
            Err(error) => {
                let group = group_socket::GROUP;
                tracing::warn!("the group {group} can't ask this daemon: {error:#}");
            }
        }
        Ok(Self {
            state,
            tasks,
            end_signals: Mutex::default(),
            _sockets: sockets,
            _lock: lock,
        })
    }

    /// From now on the daemon shows this. Once only.
    pub(crate) fn show(&self, subject: impl Subject) {
        self.state.show(subject);
        self.state.enter();
        self.state.notice();
    }

    /// The daemon takes connections at this address. Once only. Who hears of it may ask the daemon
    /// to end, which it does in order from now on.
    pub(crate) fn set_listen(&self, listen: SocketAddr) {
        *self.lock_signals() = Some(EndSignals::heed());
        self.state.set_listen(listen);
        service::ready(listen);
    }

    /// Resolves when the program is asked to end, by a signal or over the socket.
    pub(crate) async fn asked_to_end(&self) {
        let heeded = self.lock_signals().take();
        let signals = heeded.unwrap_or_else(EndSignals::heed);
        tokio::select! {
            () = signals.asked_to_end() => {}
            () = self.state.stopped() => {}
        }
        service::stopping();
    }

    fn lock_signals(&self) -> MutexGuard<'_, Option<EndSignals>> {
        self.end_signals
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
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
