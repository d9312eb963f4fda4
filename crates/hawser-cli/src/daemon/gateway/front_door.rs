//! The port for hosts that have not enrolled, which reach services of this machine by it.
//!
//! It is a gateway of its own, with limits of its own: whatever strangers do there takes no place,
//! session or memory of a client.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use hawser_config::{FrontPort, ServeConfig};
use hawser_front::gateway::{ClientLimits, Fronted, GatewayCounters, Shown};
use hawser_front::this_machine::ThisMachine;
use hawser_net::foreign_source::ForeignSource;
use hawser_net::gateway::{AcceptLimits, AdmitAll, Gateway, GatewayConfig};
use hawser_net::links::{Link, OwnAddresses};
use hawser_net::store::StateDir;
use hawser_net::takeover::PortOf;
use hawser_types::ByteCount;
use rustix::process::{Resource, getrlimit};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{MissedTickBehavior, interval};

use super::front_handshakes::{Facts, FrontHandshakes, ShownAnswers};
use crate::daemon::takeover::Predecessor;
use crate::setup::Setup;

/// A port that is open to everybody, and leads to services of this machine.
pub(crate) struct FrontDoor {
    gateway: Arc<Gateway>,
    fronted: Arc<Fronted>,
    source: Option<Arc<ForeignSource>>,
    /// Tell clients of it.
    handshakes: FrontHandshakes,
    tasks: [AbortHandle; 2],
}

/// What is shown of it.
pub(crate) struct ShownFront {
    pub(crate) door: Weak<Gateway>,
    pub(crate) counters: Arc<GatewayCounters>,
    /// What handshakes tell clients.
    pub(crate) answers: ShownAnswers,
}

/// Services of this machine that hosts may reach which have not enrolled.
#[derive(Default)]
pub(crate) struct Services {
    /// How each is shown clients' addresses.
    shown: BTreeMap<u16, Shown>,
    source: Option<Arc<ForeignSource>>,
}

impl Services {
    /// Sets up what it takes to show the services at these ports clients' addresses. One that can't
    /// be shown them is left out, and the log says why. It disturbs no predecessor, which this one
    /// may have.
    pub(crate) async fn prepare(ports: &[FrontPort], is_succeeding: bool) -> Self {
        let as_source = ports.iter().filter(|it| it.proxy_protocol.is_none());
        let as_source: BTreeSet<u16> = as_source.map(|it| it.port).collect();
        let begin = async {
            if is_succeeding {
                ForeignSource::succeed(as_source.clone()).await
            } else {
                ForeignSource::begin(as_source.clone()).await
            }
        };
        let source = if as_source.is_empty() {
            None
        } else {
            match begin.await {
                Ok(source) => Some(Arc::new(source)),
                Err(error) => {
                    for port in &as_source {
                        tracing::warn!(
                            %port,
                            %error,
                            "not fronted: its service would take strangers for this machine. Where \
                             it takes the PROXY protocol, name that port: {port}:proxy=PORT"
                        );
                    }
                    None
                }
            }
        };
        let shown = ports.iter().filter_map(|port| {
            let shown = match (port.proxy_protocol, &source) {
                (Some(at), _) => Shown::ByProxyProtocol(at),
                (None, Some(source)) => Shown::AsSource(Arc::clone(source)),
                (None, None) => return None,
            };
            Some((port.port, shown))
        });
        Self {
            shown: shown.collect(),
            source,
        }
    }
}

impl FrontDoor {
    /// Opens the port, or takes the predecessor's, unless it leads to no service.
    pub(crate) async fn open(
        (setup, state, config): (&Setup, &StateDir, &ServeConfig),
        Services { shown, source }: Services,
        links: &watch::Receiver<Arc<Vec<Link>>>,
        predecessor: Option<&Predecessor>,
    ) -> anyhow::Result<Option<Self>> {
        let front = &config.front;
        if shown.is_empty() {
            return Ok(None);
        }
        let ports: Vec<u16> = shown.keys().copied().collect();
        let own = OwnAddresses::follow().await;
        let own = own.context("can't follow this machine's addresses")?;
        let limits = Limits::within(getrlimit(Resource::Nofile).current, config);
        let machine = ThisMachine::new(own.clone());
        let fronted = Arc::new(Fronted::new(shown, machine, limits.streams, front.pin));
        let listener = hawser_net::bind::listen(front.listen)
            .map_err(|error| not_bound(front.listen, &error))?;
        let listen = listener.local_addr()?;
        let session = &setup.config.session;
        let identity = state.identity()?;
        let key = identity.public();
        let gateway = GatewayConfig {
            identity,
            session: session.for_session(MAX_STREAMS),
            limits: limits.accept,
            congestion: session.congestion.name(),
            predecessor: predecessor.map(|it| it.to().at(PortOf::Strangers)),
        };
        let gateway = Gateway::start(gateway, vec![listener], Arc::new(AdmitAll))?;
        let gateway = Arc::new(gateway.following(links.clone()));
        let handshakes = FrontHandshakes::begin(Facts {
            ports: ports.clone(),
            fronted: Arc::clone(&fronted),
            gateway: Arc::clone(&gateway),
            key,
            links: links.clone(),
            own,
        });
        tracing::info!(%listen, ?ports, "hosts that have not enrolled reach these ports");
        let serving = serve(Arc::clone(&gateway), Arc::clone(&fronted));
        let tidying = end_idle(Arc::downgrade(&gateway));
        Ok(Some(Self {
            tasks: [
                tokio::spawn(serving).abort_handle(),
                tokio::spawn(tidying).abort_handle(),
            ],
            gateway,
            fronted,
            source,
            handshakes,
        }))
    }

    pub(crate) fn shown(&self) -> ShownFront {
        ShownFront {
            door: Arc::downgrade(&self.gateway),
            counters: self.fronted.counters(),
            answers: self.handshakes.counts(),
        }
    }

    /// The gateway that strangers come to.
    pub(crate) fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    /// Sessions, and connections to services without one, that are open here.
    pub(crate) fn open_count(&self) -> u64 {
        self.gateway.session_count() as u64 + self.handshakes.open()
    }

    /// Gives up what only one process can have, until [`Self::resume`]. All else goes on.
    pub(crate) async fn suspend(&self) {
        self.handshakes.stop().await;
    }

    /// Takes it again.
    pub(crate) fn resume(&self) {
        self.handshakes.resume();
    }

    /// Ends all sessions in order, within `patience`. The way back of services' answers stays where
    /// it is another process's by now, which `is_succeeded` says.
    pub(crate) async fn end(self, patience: Duration, is_succeeded: bool) {
        drop(self.handshakes);
        self.gateway.close(patience).await;
        self.tasks.iter().for_each(AbortHandle::abort);
        if let Some(source) = self.source.filter(|_| !is_succeeded) {
            source.end().await;
        }
    }
}

/// Why nobody listens there, and what it takes.
fn not_bound(listen: SocketAddr, error: &io::Error) -> anyhow::Error {
    match error.kind() {
        io::ErrorKind::PermissionDenied => anyhow!(
            "can't listen on {listen} for --front: {error}; a port below 1024 takes root, or \
             CAP_NET_BIND_SERVICE"
        ),
        _ => anyhow!("can't listen on {listen} for --front: {error}"),
    }
}

async fn serve(gateway: Arc<Gateway>, fronted: Arc<Fronted>) {
    while let Some(incoming) = gateway.accept().await {
        let fronted = Arc::clone(&fronted);
        tokio::spawn(async move { fronted.serve(incoming).await });
    }
}

/// Ends sessions that nobody uses, for as long as the gateway lives.
async fn end_idle(gateway: Weak<Gateway>) {
    let mut tick = interval(LOOK_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let Some(gateway) = gateway.upgrade() else {
            return;
        };
        gateway.end_idle(IDLE_AFTER);
    }
}

/// What all strangers together may have, and those of one address and network.
struct Limits {
    accept: AcceptLimits,
    streams: ClientLimits,
}

impl Limits {
    /// Within so many descriptors: half of them are for their streams and sessions at most, so
    /// that clients have theirs.
    fn within(descriptors: Option<u64>, config: &ServeConfig) -> Self {
        let descriptors = descriptors.and_then(|most| usize::try_from(most).ok());
        let descriptors = descriptors.unwrap_or(usize::MAX);
        let sessions = (descriptors / 4 / CHANNELS).clamp(1, MAX_SESSIONS);
        let streams = (descriptors / 4 / STREAM_DESCRIPTORS).clamp(1, MAX_ALL_STREAMS);
        let defaults = AcceptLimits::default();
        Self {
            accept: AcceptLimits {
                sessions,
                sessions_per_client: SESSIONS_PER_SOURCE,
                sessions_per_source: SESSIONS_PER_SOURCE.min(sessions.div_ceil(4)),
                sessions_per_network: SESSIONS_PER_NETWORK.min(sessions.div_ceil(2)),
                half_open: MAX_HALF_OPEN,
                half_open_per_source: HALF_OPEN_PER_SOURCE,
                memory: ByteCount::new(config.limits.memory.as_u64() / 4).min(defaults.memory),
            },
            streams: ClientLimits {
                streams: (MAX_STREAMS as usize).min(streams.div_ceil(4)),
                network_streams: STREAMS_PER_NETWORK.min(streams.div_ceil(2)),
                all_streams: streams,
                connects_per_second: CONNECTS_PER_SECOND,
                connect_burst: CONNECT_BURST,
                ..ClientLimits::default()
            },
        }
    }
}

/// Sessions of all strangers.
const MAX_SESSIONS: usize = 256;
const SESSIONS_PER_SOURCE: usize = 16;
const SESSIONS_PER_NETWORK: usize = 64;
/// That a session may have: each is a descriptor.
const CHANNELS: usize = 64;
/// Most that a stream takes: one that came on the service's own port has the client's socket, too.
const STREAM_DESCRIPTORS: usize = 2;
const MAX_HALF_OPEN: usize = 128;
const HALF_OPEN_PER_SOURCE: usize = 16;
/// Streams of one session, and of one address.
const MAX_STREAMS: u32 = 256;
const STREAMS_PER_NETWORK: usize = 1024;
const MAX_ALL_STREAMS: usize = 4096;
/// A browser opens some dozens for a page.
const CONNECTS_PER_SECOND: u32 = 100;
const CONNECT_BURST: u32 = 500;
/// Longer than clients keep a session that they do not use.
const IDLE_AFTER: Duration = Duration::from_secs(300);
const LOOK_EVERY: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_not_have_the_port_is_told_what_it_takes() {
        let listen = "[::]:745".parse().unwrap();
        let told = |kind: io::ErrorKind| not_bound(listen, &kind.into()).to_string();
        let refused = told(io::ErrorKind::PermissionDenied);
        assert!(refused.contains("[::]:745") && refused.contains("CAP_NET_BIND_SERVICE"));
        assert!(!told(io::ErrorKind::AddrInUse).contains("CAP_NET_BIND_SERVICE"));
    }

    #[test]
    fn strangers_leave_half_of_the_descriptors_to_clients() {
        let config = ServeConfig::default();
        for descriptors in [1024, 4096, 65_536, 1 << 20] {
            let limits = Limits::within(Some(descriptors), &config);
            let sessions = limits.accept.sessions * CHANNELS;
            let all = sessions + limits.streams.all_streams * STREAM_DESCRIPTORS;
            assert!(all as u64 <= descriptors / 2, "{descriptors}: {all}");
            assert!(limits.accept.sessions_per_source < limits.accept.sessions);
            let streams = limits.streams;
            assert!(streams.streams < streams.network_streams);
            assert!(streams.network_streams < streams.all_streams);
        }
        let limits = Limits::within(None, &config);
        assert_eq!(limits.accept.sessions, MAX_SESSIONS);
    }
}
