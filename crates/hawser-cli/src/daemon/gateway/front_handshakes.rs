//! Handshakes that tell of fronted ports, and the connections that come of them.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hawser_capture::CaptureError;
use hawser_front::gateway::Fronted;
use hawser_net::gateway::Gateway;
use hawser_net::identity::PublicKey;
use hawser_net::links::{Link, OwnAddresses};
use tokio::sync::watch;

use super::front_ports::FrontPorts;
use crate::daemon::handshake::answering::{AnswerCounts, Answering};

/// Has handshakes say that services can be reached over all links, where that can be, and takes the
/// connections that want it on the services' own ports. One process at a time does that.
pub(super) struct FrontHandshakes {
    facts: Facts,
    answering: Mutex<Option<Answering>>,
    ports: FrontPorts,
    counts: ShownAnswers,
}

/// What handshakes tell, and where connections go.
pub(super) struct Facts {
    /// The services' ports.
    pub(super) ports: Vec<u16>,
    pub(super) fronted: Arc<Fronted>,
    pub(super) gateway: Arc<Gateway>,
    /// That clients will meet.
    pub(super) key: PublicKey,
    pub(super) links: watch::Receiver<Arc<Vec<Link>>>,
    /// This machine's addresses.
    pub(super) own: OwnAddresses,
}

/// Counts what is answered, while that is done.
#[derive(Clone, Default)]
pub(crate) struct ShownAnswers(Arc<Mutex<Option<AnswerCounts>>>);

impl FrontHandshakes {
    /// Begins.
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

    /// Handshakes tell nothing any more, so that another process can have them tell. Connections
    /// that wanted a bond before are still taken.
    pub(super) async fn stop(&self) {
        let answering = lock(&self.answering).take();
        if let Some(answering) = answering {
            answering.end().await;
        }
    }

    /// Has them tell again.
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
                    "handshakes do not tell that these ports are fronted: clients that go by them \
                     do not notice, others probe this machine"
                );
                None
            }
        };
        *lock(&self.counts.0) = answering.as_ref().map(Answering::counts);
        *lock(&self.answering) = answering;
    }

    /// Connections to services that are open here without a session, or may become one.
    pub(super) fn open(&self) -> u64 {
        self.ports.open()
    }

    /// The counters.
    pub(super) fn counts(&self) -> ShownAnswers {
        self.counts.clone()
    }
}

impl Facts {
    /// Returns the listeners for connections that want a bond, too.
    fn answer(&self) -> Result<(Answering, Vec<TcpListener>), CaptureError> {
        // A service takes clients of another family itself, whom it can't be shown by this.
        let mut families = LOOPBACK.to_vec();
        families.retain(|it| self.fronted.works_for(*it));
        let ports = self.ports.iter().copied().collect();
        let ports = (ports, self.fronted.led_elsewhere());
        let machine = (self.links.clone(), &self.own);
        Answering::start(ports, &self.key, machine, &families)
    }
}

impl ShownAnswers {
    /// Adds them to a list, each name begun with `prefix`.
    pub(crate) fn list(&self, list: &mut BTreeMap<String, u64>, prefix: &str) {
        if let Some(counts) = &*lock(&self.0) {
            counts.list(list, prefix);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One for each family.
const LOOPBACK: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::LOCALHOST),
    IpAddr::V6(Ipv6Addr::LOCALHOST),
];
