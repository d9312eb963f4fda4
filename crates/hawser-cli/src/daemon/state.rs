//! A daemon's state.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use hawser_control::{AllSessions, History, PredecessorStatus, Role, States};
use tokio::sync::{Notify, watch};

use super::books::Books;
use super::change_log::ChangeLog;
use super::clock::{milliseconds, since_1970};
use super::dashboard::Dashboard;
use super::link_books::LinkBooks;
use super::subject::Subject;
use super::takeover::{Predecessor, Wishes};
use super::totals::Totals;

/// A daemon's state, shared by its tasks and by all who ask it.
pub(crate) struct State {
    role: Role,
    predecessor: Option<Arc<Predecessor>>,
    started: tokio::time::Instant,
    listen: OnceLock<SocketAddr>,
    /// Where hosts that are known by name come to.
    door: OnceLock<SocketAddr>,
    dashboard: OnceLock<Dashboard>,
    subject: OnceLock<Box<dyn Subject>>,
    record: Mutex<Record>,
    change_log: Mutex<ChangeLog>,
    /// Counts entries in the record, and events.
    changes: watch::Sender<u64>,
    stop: Notify,
    /// Where wishes to replace the daemon go.
    wishes: OnceLock<Wishes>,
}

/// The traffic that is recorded.
#[derive(Default)]
pub(super) struct Record {
    pub(super) sessions: Books,
    pub(super) totals: Totals,
    /// As of the last look for what has changed.
    pub(super) all_sessions: AllSessions,
    pub(super) links: LinkBooks,
    pub(super) history: History,
    pub(super) states: States,
}

impl State {
    /// Nothing is known yet. `predecessor` is the process whose place this one takes, if it was
    /// started for that.
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

    /// Role of the daemon.
    pub(super) fn role(&self) -> Role {
        self.role
    }

    /// What the process of before an upgrade still serves, if it does.
    pub(super) fn predecessor(&self) -> Option<PredecessorStatus> {
        let left = self.predecessor.as_ref()?.left()?;
        Some(PredecessorStatus {
            open: left.open,
            ends_in: Duration::from_secs(left.seconds),
        })
    }

    /// Time since the daemon started.
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

    /// Address at which the daemon takes connections.
    pub(super) fn listen(&self) -> Option<SocketAddr> {
        self.listen.get().copied()
    }

    /// Sets that address. Later calls change nothing.
    pub(super) fn set_listen(&self, listen: SocketAddr) {
        let _ = self.listen.set(listen);
    }

    /// Address at which hosts that are known by name come to it, if any do.
    pub(super) fn door(&self) -> Option<SocketAddr> {
        self.door.get().copied()
    }

    /// Sets that address. Later calls change nothing.
    pub(super) fn set_door(&self, door: SocketAddr) {
        let _ = self.door.set(door);
    }

    /// The dashboard, where one is served.
    pub(super) fn dashboard(&self) -> Option<&Dashboard> {
        self.dashboard.get()
    }

    /// Sets the dashboard. Later calls change nothing.
    pub(super) fn set_dashboard(&self, dashboard: Dashboard) {
        let _ = self.dashboard.set(dashboard);
    }

    /// Where wishes to replace the daemon go; none for one that never can be, or not yet.
    pub(super) fn wishes(&self) -> Option<Wishes> {
        self.wishes.get().cloned()
    }

    /// Sets that. Later calls change nothing.
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

    /// Counts entries in the record, and events, from now on.
    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Tells the subscribers that there is a new entry or event.
    pub(super) fn has_changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// Writes down how much has moved by now.
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
            // The states of its links do not follow from sessions.
            _ => Vec::new(),
        };
        let seen = self.settled(&mut record, subject, views, (links, connections));
        let now = milliseconds(since_1970());
        record.history.enter(now, &seen.links);
        drop(record);
        self.has_changed();
    }

    pub(super) fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn change_log(&self) -> MutexGuard<'_, ChangeLog> {
        self.change_log
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
