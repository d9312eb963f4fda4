//! The server's end: SYN-ACKs of fronted ports say that they can be reached over all links.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use hawser_capture::{Bonds, CaptureError, Discovery, FrontedPort, mount_point};
use hawser_net::identity::PublicKey;
use hawser_net::links::{Link, OwnAddresses};
use hawser_wire::KeyHint;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::diverting::{self, Interfaces};

/// Has the listeners of fronted ports answer the option of SYNs, for as long as this lives.
pub(crate) struct Answering {
    discovery: Arc<Mutex<Discovery>>,
    following: JoinHandle<()>,
}

/// Counts what is answered, while that is done.
pub(crate) struct AnswerCounts(Weak<Mutex<Discovery>>);

impl Answering {
    /// Begins, for services at these `ports`; clients will meet `key`. Connections to those of them
    /// that rules of the machine lead to other ports have no bond. Listeners that can't be
    /// reached any more are named in the log. Returns the listeners for connections that want a
    /// bond, too, which come to the services' ports and to addresses of `own`, each at one of these
    /// loopback addresses for its family; none where there can't be any.
    pub(crate) fn start(
        (ports, led_elsewhere): (BTreeSet<u16>, watch::Receiver<BTreeSet<u16>>),
        key: &PublicKey,
        (links, own): (watch::Receiver<Arc<Vec<Link>>>, &OwnAddresses),
        families: &[IpAddr],
    ) -> Result<(Self, Vec<TcpListener>), CaptureError> {
        let mut discovery = Discovery::start(&mount_point()?)?;
        let listeners = diverting::listen(&mut discovery, families).unwrap_or_else(|error| {
            tracing::warn!(%error, "connections are not bonded from their beginning");
            Vec::new()
        });
        let discovery = Arc::new(Mutex::new(discovery));
        let mut answers = Answers {
            discovery: Arc::clone(&discovery),
            ports,
            led_elsewhere,
            key_hint: key.hint(),
            bonds: if listeners.is_empty() {
                Bonds::Refused
            } else {
                Bonds::Diverted
            },
            interfaces: Interfaces::default(),
            own: own.clone(),
        };
        answers.update(&links.borrow())?;
        if let Err(error) = lock(&discovery).reach_listeners() {
            let ports = &answers.ports;
            tracing::warn!(
                ?ports,
                %error,
                "handshakes of services that are older than Hawser do not answer; start those again"
            );
        }
        let following = tokio::spawn(answers.follow(links));
        let answering = Self {
            discovery,
            following,
        };
        Ok((answering, listeners))
    }

    /// Nothing is answered any more once this returns.
    pub(crate) async fn end(mut self) {
        // The task has the programs, too.
        self.following.abort();
        let _ = (&mut self.following).await;
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
    /// Those of them whose connections come to other ports.
    led_elsewhere: watch::Receiver<BTreeSet<u16>>,
    key_hint: KeyHint,
    bonds: Bonds,
    interfaces: Interfaces,
    own: OwnAddresses,
}

impl Answers {
    /// Answers as links and addresses are now.
    fn update(&mut self, links: &[Link]) -> Result<(), CaptureError> {
        let interfaces = super::interfaces(links);
        let led_elsewhere = self.led_elsewhere.borrow_and_update().clone();
        let fronted = self.ports.iter().map(|port| FrontedPort {
            port: *port,
            interfaces,
            key_hint: self.key_hint,
            bonds: if led_elsewhere.contains(port) {
                Bonds::Refused
            } else {
                self.bonds
            },
        });
        let mut discovery = lock(&self.discovery);
        if self.bonds == Bonds::Diverted {
            if let Some(own) = self.own.all() {
                diverting::set_own(&mut discovery, own.borrow().addresses());
            }
            self.interfaces.follow(&mut discovery, links);
        }
        discovery.set_fronted(&fronted.collect::<Vec<_>>())
    }

    /// Goes on as links and addresses change.
    async fn follow(mut self, mut links: watch::Receiver<Arc<Vec<Link>>>) {
        let mut own = self.own.all();
        loop {
            let address = async {
                match &mut own {
                    Some(own) => own.changed().await,
                    None => std::future::pending().await,
                }
            };
            let changed = tokio::select! {
                changed = links.changed() => changed,
                changed = address => changed,
                changed = self.led_elsewhere.changed() => changed,
            };
            if changed.is_err() {
                return;
            }
            let now = Arc::clone(&links.borrow_and_update());
            if let Err(error) = self.update(&now) {
                tracing::debug!(%error, "handshakes answer as links were before");
            }
        }
    }
}

fn lock(discovery: &Mutex<Discovery>) -> MutexGuard<'_, Discovery> {
    discovery.lock().unwrap_or_else(PoisonError::into_inner)
}
