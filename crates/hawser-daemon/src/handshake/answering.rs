//! The server's end: SYN-ACKs announce that fronted ports can be reached over all links.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, TcpListener};
use std::sync::{Arc, Weak};

use hawser_capture::{Bonds, CaptureError, Discovery, FrontedPort, mount_point};
use hawser_keys::identity::PublicKey;
use hawser_link::links::{Link, OwnAddresses};
use hawser_wire::KeyHint;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::diverting::{self, Interfaces};

/// Makes the listeners of fronted ports answer the option of SYNs, until dropped.
pub(crate) struct Answering {
    discovery: Arc<Mutex<Discovery>>,
    following: JoinHandle<()>,
}

/// Counters of the answers, while SYNs are answered.
pub(crate) struct AnswerCounts(Weak<Mutex<Discovery>>);

impl Answering {
    /// Begins to answer SYNs for services at these `ports`; `key` is the key that clients will see.
    /// Ports in `led_elsewhere`, which the machine's rules redirect, offer no bond. Logs listeners
    /// that can't be changed while they run. Also returns the listeners, at the loopback addresses
    /// `families`, for connections that ask for a bond at the services' ports and addresses of
    /// `own`; none if such bonds are not possible.
    pub(crate) fn start(
        (ports, led_elsewhere): (BTreeSet<u16>, watch::Receiver<BTreeSet<u16>>),
        key: &PublicKey,
        (links, own): (watch::Receiver<Arc<Vec<Link>>>, &OwnAddresses),
        families: &[IpAddr],
    ) -> Result<(Self, Vec<TcpListener>), CaptureError> {
        let mut discovery = Discovery::start(&mount_point()?)?;
        let listeners = diverting::listen(&mut discovery, families).unwrap_or_else(|error| {
            tracing::warn!(%error, "can't begin sessions on services' own ports");
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
        if let Err(error) = discovery.lock().reach_listeners() {
            let ports = &answers.ports;
            tracing::warn!(
                ?ports,
                %error,
                "services that started before Hawser do not answer in handshakes; restart them"
            );
        }
        let following = tokio::spawn(answers.follow(links));
        let answering = Self {
            discovery,
            following,
        };
        Ok((answering, listeners))
    }

    /// Stops answering. No SYN is answered once this returns.
    pub(crate) async fn end(mut self) {
        // The task also holds the programs in the kernel.
        self.following.abort();
        let _ = (&mut self.following).await;
    }

    /// Returns the counters.
    pub(crate) fn counts(&self) -> AnswerCounts {
        AnswerCounts(Arc::downgrade(&self.discovery))
    }
}

impl AnswerCounts {
    /// Adds the counters to a list, each name prefixed with `prefix`.
    pub(crate) fn list(&self, list: &mut BTreeMap<String, u64>, prefix: &str) {
        if let Some(discovery) = self.0.upgrade() {
            super::list_counts(list, prefix, discovery.lock().counts());
        }
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.following.abort();
    }
}

/// The programs in the kernel that answer SYNs, and the content of their answers.
struct Answers {
    discovery: Arc<Mutex<Discovery>>,
    ports: BTreeSet<u16>,
    /// Ports whose connections are redirected to other ports.
    led_elsewhere: watch::Receiver<BTreeSet<u16>>,
    key_hint: KeyHint,
    bonds: Bonds,
    interfaces: Interfaces,
    own: OwnAddresses,
}

impl Answers {
    /// Updates the answers to the current links and addresses.
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
        let mut discovery = self.discovery.lock();
        if self.bonds == Bonds::Diverted {
            if let Some(own) = self.own.all() {
                diverting::set_own(&mut discovery, own.borrow().addresses());
            }
            self.interfaces.follow(&mut discovery, links);
        }
        discovery.set_fronted(&fronted.collect::<Vec<_>>())
    }

    /// Updates the answers whenever links or addresses change.
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
                tracing::debug!(%error, "can't update the answers in handshakes");
            }
        }
    }
}
