//! Announces fronted ports in TCP handshakes, and accepts the connections that result.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener};
use std::sync::Arc;

use hawser_capture::CaptureError;
use hawser_front::gateway::Fronted;
use hawser_keys::identity::PublicKey;
use hawser_link::links::{Link, OwnAddresses};
use hawser_net::gateway::Gateway;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::front_ports::FrontPorts;
use crate::handshake::answering::{AnswerCounts, Answering};

/// Announces in handshakes, if possible, that services can be reached over all links, and accepts
/// connections on the services' own ports that ask for a bond. Only one process at a time does
/// this.
pub(super) struct FrontHandshakes {
    facts: Facts,
    answering: Mutex<Option<Answering>>,
    ports: FrontPorts,
    counts: ShownAnswers,
}

/// Content of the handshakes, and destinations of the connections.
pub(super) struct Facts {
    /// The services' ports.
    pub(super) ports: Vec<u16>,
    pub(super) fronted: Arc<Fronted>,
    pub(super) gateway: Arc<Gateway>,
    /// Key that the gateway proves to clients.
    pub(super) key: PublicKey,
    pub(super) links: watch::Receiver<Arc<Vec<Link>>>,
    /// This machine's addresses.
    pub(super) own: OwnAddresses,
}

/// Counters of the answers, while handshakes are answered.
#[derive(Clone, Default)]
pub(crate) struct ShownAnswers(Arc<Mutex<Option<AnswerCounts>>>);

impl FrontHandshakes {
    /// Begins to announce the ports.
    pub(super) fn begin(facts: Facts) -> Self {
        let begun = Self {
            ports: FrontPorts::new(&facts.gateway, &facts.fronted),
            facts,
            answering: Mutex::default(),
            counts: ShownAnswers::default(),
        };
        begun.resume();
        begun
    }

    /// Stops announcing, so that another process can begin. Connections that asked for a bond
    /// before are still accepted.
    pub(super) async fn stop(&self) {
        let answering = self.answering.lock().take();
        if let Some(answering) = answering {
            answering.end().await;
        }
    }

    /// Announces the ports again.
    pub(super) fn resume(&self) {
        let begun = self.facts.answer().and_then(|(answering, listeners)| {
            let accepting = self.ports.accept_at(listeners);
            accepting.map_err(|error| {
                let what = "the listeners for connections that want a bond";
                CaptureError::System { what, error }
            })?;
            Ok(answering)
        });
        let answering = match begun {
            Ok(answering) => Some(answering),
            Err(error) => {
                tracing::warn!(
                    %error,
                    "can't announce the fronted ports in TCP handshakes: clients that rely on \
                     handshakes do not find them, others probe this machine"
                );
                None
            }
        };
        *self.counts.0.lock() = answering.as_ref().map(Answering::counts);
        *self.answering.lock() = answering;
    }

    /// Returns the number of open connections that go to services without a session, or whose
    /// session has not begun yet.
    pub(super) fn open(&self) -> u64 {
        self.ports.open()
    }

    /// Returns the counters.
    pub(super) fn counts(&self) -> ShownAnswers {
        self.counts.clone()
    }
}

impl Facts {
    /// Begins to answer handshakes. Also returns the listeners for connections that ask for a bond.
    fn answer(&self) -> Result<(Answering, Vec<TcpListener>), CaptureError> {
        // If a family's client addresses can't be shown to the service, the service itself accepts
        // the clients of that family.
        let mut families = LOOPBACK.to_vec();
        families.retain(|it| self.fronted.works_for(*it));
        let ports = self.ports.iter().copied().collect();
        let ports = (ports, self.fronted.led_elsewhere());
        let machine = (self.links.clone(), &self.own);
        Answering::start(ports, &self.key, machine, &families)
    }
}

impl ShownAnswers {
    /// Adds the counters to a list, each name prefixed with `prefix`.
    pub(crate) fn list(&self, list: &mut BTreeMap<String, u64>, prefix: &str) {
        if let Some(counts) = &*self.0.lock() {
            counts.list(list, prefix);
        }
    }
}

/// A loopback address for each family.
const LOOPBACK: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::LOCALHOST),
    IpAddr::V6(Ipv6Addr::LOCALHOST),
];
