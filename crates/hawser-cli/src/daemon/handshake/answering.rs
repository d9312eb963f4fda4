//! The server's end: SYN-ACKs of fronted ports say that they can be reached over all links.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use hawser_capture::{Bonds, CaptureError, Discovery, FrontedPort, mount_point};
use hawser_net::identity::PublicKey;
use hawser_net::links::Link;
use hawser_wire::KeyHint;
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// Has the listeners of fronted ports answer the option of SYNs, for as long as this lives.
pub(crate) struct Answering {
    discovery: Arc<Mutex<Discovery>>,
    following: AbortHandle,
}

/// Counts what is answered, while that is done.
pub(crate) struct AnswerCounts(Weak<Mutex<Discovery>>);

impl Answering {
    /// Begins, for services at these `ports`; clients will meet `key`. Listeners that can't be
    /// reached any more are named in the log.
    pub(crate) fn start(
        ports: BTreeSet<u16>,
        key: &PublicKey,
        links: watch::Receiver<Arc<Vec<Link>>>,
    ) -> Result<Self, CaptureError> {
        let discovery = Arc::new(Mutex::new(Discovery::start(&mount_point()?)?));
        let answers = Answers {
            discovery: Arc::clone(&discovery),
            ports,
            key_hint: key.hint(),
        };
        answers.set(super::interfaces(links.borrow().iter()))?;
        if let Err(error) = lock(&discovery).reach_listeners() {
            let ports = &answers.ports;
            tracing::warn!(
                ?ports,
                %error,
                "handshakes of services that are older than Hawser do not answer; start those again"
            );
        }
        let following = tokio::spawn(answers.follow(links));
        Ok(Self {
            discovery,
            following: following.abort_handle(),
        })
    }

    /// The counters.
    pub(crate) fn counts(&self) -> AnswerCounts {
        AnswerCounts(Arc::downgrade(&self.discovery))
    }
}

impl AnswerCounts {
    /// Adds them to a list, each name begun with `prefix`.
    pub(crate) fn list(&self, list: &mut BTreeMap<String, u64>, prefix: &str) {
        if let Some(discovery) = self.0.upgrade() {
            super::list_counts(list, prefix, lock(&discovery).counts());
        }
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.following.abort();
    }
}

/// The programs, and what they answer.
struct Answers {
    discovery: Arc<Mutex<Discovery>>,
    ports: BTreeSet<u16>,
    key_hint: KeyHint,
}

impl Answers {
    fn set(&self, interfaces: u8) -> Result<(), CaptureError> {
        let fronted = self.ports.iter().map(|port| FrontedPort {
            port: *port,
            interfaces,
            key_hint: self.key_hint,
            // They have a port of their own.
            bonds: Bonds::Refused,
        });
        lock(&self.discovery).set_fronted(&fronted.collect::<Vec<_>>())
    }

    /// Answers with the number of links as it is.
    async fn follow(self, mut links: watch::Receiver<Arc<Vec<Link>>>) {
        while links.changed().await.is_ok() {
            let interfaces = super::interfaces(links.borrow_and_update().iter());
            if let Err(error) = self.set(interfaces) {
                tracing::debug!(%error, "handshakes answer with the number of links before");
            }
        }
    }
}

fn lock(discovery: &Mutex<Discovery>) -> MutexGuard<'_, Discovery> {
    discovery.lock().unwrap_or_else(PoisonError::into_inner)
}
