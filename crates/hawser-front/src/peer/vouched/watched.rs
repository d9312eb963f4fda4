//! The state of one name that is held to its voucher.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use hawser_keys::identity::PublicKey;
use hawser_types::HostName;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use super::refusal::Refusal;

/// A name, and the results of fetching its voucher and connecting to it.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) name: HostName,
    /// Results of fetching the name's voucher.
    fetched: watch::Sender<Fetched>,
    /// Signals that a connection waits for the voucher, or that a proved key is not in it.
    wanted: Notify,
    /// Servers that have proved keys, as long as there is a session with them.
    pub(super) proved: Mutex<BTreeSet<(IpAddr, PublicKey)>>,
    /// Held by the connection that asks a server for its key.
    pub(super) asking: tokio::sync::Mutex<()>,
    refused: Mutex<Option<(u16, Refusal)>>,
}

/// Results of fetching a voucher.
#[derive(Debug, Default)]
struct Fetched {
    /// Number of attempts so far.
    attempts: u64,
    /// Why the last attempt failed.
    problem: Option<String>,
}

impl Watched {
    pub(super) fn new(name: HostName) -> Self {
        Self {
            name,
            fetched: watch::Sender::default(),
            wanted: Notify::new(),
            proved: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
            refused: Mutex::default(),
        }
    }

    /// Records the end of an attempt to fetch the voucher. Returns whether the problem is news.
    pub(super) fn note_fetched(&self, problem: Option<String>) -> bool {
        let mut is_news = false;
        self.fetched.send_modify(|fetched| {
            fetched.attempts += 1;
            is_news = fetched.problem != problem;
            fetched.problem = problem;
        });
        is_news
    }

    /// Returns why the voucher could not be fetched the last time.
    pub(super) fn problem(&self) -> Option<String> {
        self.fetched.borrow().problem.clone()
    }

    /// Requests that the name's voucher be fetched soon.
    pub(super) fn want(&self) {
        self.wanted.notify_one();
    }

    /// Waits until a fetch is wanted, at most for `pause`.
    pub(super) async fn until_wanted(&self, pause: Duration) {
        let _ = tokio::time::timeout(pause, self.wanted.notified()).await;
    }

    /// Requests that the name's voucher be fetched soon, and waits until an attempt to fetch it
    /// ends, at most for `patience`.
    pub(super) async fn fetched_soon(&self, patience: Duration) {
        let mut fetched = self.fetched.subscribe();
        let before = fetched.borrow_and_update().attempts;
        self.want();
        let _ = tokio::time::timeout(patience, fetched.wait_for(|it| it.attempts > before)).await;
    }

    /// Stores the outcome of a connection to a port of the name. Returns whether it is news.
    pub(super) fn set_refused(&self, refused: Option<(u16, Refusal)>) -> bool {
        let before = std::mem::replace(&mut *self.refused.lock(), refused.clone());
        before != refused
    }

    /// Returns why the last connection was refused, and to which port.
    pub(super) fn refused(&self) -> Option<(u16, Refusal)> {
        self.refused.lock().clone()
    }
}
