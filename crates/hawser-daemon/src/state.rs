//! A daemon's state.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hawser_control::{AllSessions, History, PredecessorStatus, Role, States};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, watch};

use super::books::Books;
use super::change_log::ChangeLog;
use super::clock::{milliseconds, since_1970};
use super::dashboard::Dashboard;
use super::link_books::LinkBooks;
use super::subject::Subject;
use super::takeover::{Predecessor, Wishes};
use super::totals::Totals;

/// A daemon's state, shared by its tasks and its control connections.
pub(crate) struct State {
    role: Role,
    predecessor: Option<Arc<Predecessor>>,
    started: tokio::time::Instant,
    listen: OnceLock<SocketAddr>,
    /// Address at which hosts that are known by name connect.
    door: OnceLock<SocketAddr>,
    dashboard: OnceLock<Dashboard>,
    subject: OnceLock<Box<dyn Subject>>,
    record: Mutex<Record>,
    change_log: Mutex<ChangeLog>,
    /// Counts updates of the record, and events.
    changes: watch::Sender<u64>,
    stop: Notify,
    /// Channel for requests to replace the daemon.
    wishes: OnceLock<Wishes>,
}

/// The traffic that is recorded.
#[derive(Default)]
pub(super) struct Record {
    pub(super) sessions: Books,
    pub(super) totals: Totals,
    /// Totals of all sessions at the last look for changes.
    pub(super) all_sessions: AllSessions,
    pub(super) links: LinkBooks,
    pub(super) history: History,
    pub(super) states: States,
}

impl State {
    /// Creates an empty state. `predecessor` is the process that this one takes over from, if it
    /// was started for that.
    pub(super) fn new(role: Role, predecessor: Option<Arc<Predecessor>>) -> Self {
        Self {
            role,
            predecessor,
            started: tokio::time::Instant::now(),
            listen: OnceLock::new(),
            door: OnceLock::new(),
            dashboard: OnceLock::new(),
            subject: OnceLock::new(),
            record: Mutex::default(),
            change_log: Mutex::default(),
            changes: watch::Sender::new(0),
            stop: Notify::new(),
            wishes: OnceLock::new(),
        }
    }

    /// Returns the role of the daemon.
    pub(super) fn role(&self) -> Role {
        self.role
    }

    /// Returns what the old process still serves after an upgrade, if it still runs.
    pub(super) fn predecessor(&self) -> Option<PredecessorStatus> {
        let left = self.predecessor.as_ref()?.left()?;
        Some(PredecessorStatus {
            open: left.open,
            ends_in: Duration::from_secs(left.seconds),
        })
    }

    /// Returns the time since the daemon started.
    pub(super) fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// Returns the subject, once there is one.
    pub(super) fn subject(&self) -> Option<&dyn Subject> {
        self.subject.get().map(|subject| &**subject)
    }

    /// Sets what the daemon shows. Later calls change nothing.
    pub(super) fn show(&self, subject: impl Subject) {
        let _ = self.subject.set(Box::new(subject));
    }

    /// Returns the address at which the daemon accepts connections.
    pub(super) fn listen(&self) -> Option<SocketAddr> {
        self.listen.get().copied()
    }

    /// Sets the address at which the daemon accepts connections. Later calls change nothing.
    pub(super) fn set_listen(&self, listen: SocketAddr) {
        let _ = self.listen.set(listen);
    }

    /// Returns the address at which hosts that are known by name connect, if there is one.
    pub(super) fn door(&self) -> Option<SocketAddr> {
        self.door.get().copied()
    }

    /// Sets the address at which hosts that are known by name connect. Later calls change nothing.
    pub(super) fn set_door(&self, door: SocketAddr) {
        let _ = self.door.set(door);
    }

    /// Returns the dashboard, if one is served.
    pub(super) fn dashboard(&self) -> Option<&Dashboard> {
        self.dashboard.get()
    }

    /// Sets the dashboard. Later calls change nothing.
    pub(super) fn set_dashboard(&self, dashboard: Dashboard) {
        let _ = self.dashboard.set(dashboard);
    }

    /// Returns the channel for requests to replace the daemon; `None` if it can't be replaced
    /// (yet).
    pub(super) fn wishes(&self) -> Option<Wishes> {
        self.wishes.get().cloned()
    }

    /// Sets the channel for requests to replace the daemon. Later calls change nothing.
    pub(super) fn take_wishes(&self, wishes: Wishes) {
        let _ = self.wishes.set(wishes);
    }

    /// Asks the daemon to end.
    pub(super) fn stop(&self) {
        self.stop.notify_one();
    }

    /// Waits until the daemon is asked to end.
    pub(super) async fn stopped(&self) {
        self.stop.notified().await;
    }

    /// Returns a receiver that is notified of updates of the record, and of events.
    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Notifies the subscribers of an update or an event.
    pub(super) fn has_changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// Updates the record to the current traffic.
    pub(super) fn enter(&self) {
        let Some(subject) = self.subject() else {
            return;
        };
        let (views, placed) = (self.all_views(subject), subject.moved());
        let (mut links, connections) = (subject.links(), subject.connections());
        let mut record = self.record();
        let span = record.sessions.enter(tokio::time::Instant::now(), &views);
        record.totals.enter(&views);
        record.links.enter(span, (&views, &placed), &links);
        record.links.fill(&mut links, connections.as_ref());
        let views = match self.role() {
            Role::Client => views,
            // Only the states of a client's links depend on sessions.
            _ => Vec::new(),
        };
        let seen = self.settled(&mut record, subject, views, (links, connections));
        let now = milliseconds(since_1970());
        record.history.enter(now, &seen.links);
        drop(record);
        self.has_changed();
    }

    pub(super) fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock()
    }

    pub(super) fn change_log(&self) -> MutexGuard<'_, ChangeLog> {
        self.change_log.lock()
    }
}
