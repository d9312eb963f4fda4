//! The port for hosts that have not enrolled (strangers) to reach services of this machine.
//!
//! A separate gateway with its own limits serves the port, so that strangers can't use up the
//! connections, sessions or memory that clients need.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use hawser_config::{FrontPort, ServeConfig};
use hawser_front::gateway::{ClientLimits, Fronted, GatewayCounters, Shown};
use hawser_front::this_machine::ThisMachine;
use hawser_host::foreign_source::ForeignSource;
use hawser_keys::store::StateDir;
use hawser_link::links::{Link, OwnAddresses};
use hawser_net::gateway::{AcceptLimits, AdmitAll, Gateway, GatewayConfig};
use hawser_net::takeover::PortOf;
use hawser_types::ByteCount;
use rustix::process::{Resource, getrlimit};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{MissedTickBehavior, interval};

use super::front_handshakes::{Facts, FrontHandshakes, ShownAnswers};
use crate::setup::Setup;
use crate::takeover::Predecessor;

/// A port that is open to all hosts and leads to services of this machine.
pub(crate) struct FrontDoor {
    gateway: Arc<Gateway>,
    fronted: Arc<Fronted>,
    source: Option<Arc<ForeignSource>>,
    /// Announces the port to clients in TCP handshakes.
    handshakes: FrontHandshakes,
    tasks: [AbortHandle; 2],
}

/// The part of a front door that `hawser status` shows.
pub(crate) struct ShownFront {
    pub(crate) door: Weak<Gateway>,
    pub(crate) counters: Arc<GatewayCounters>,
    /// Counters of the answers in handshakes.
    pub(crate) answers: ShownAnswers,
}

/// Services of this machine for hosts that have not enrolled.
#[derive(Default)]
pub(crate) struct Services {
    /// How each service sees clients' addresses, by port.
    shown: BTreeMap<u16, Shown>,
    source: Option<Arc<ForeignSource>>,
}

impl Services {
    /// Prepares the services at these ports to see clients' addresses. Leaves out a service that
    /// can't see them, and logs the reason. Does not disturb a predecessor.
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
                            "port not fronted: its service would see strangers under this \
                             machine's address. If the service accepts the PROXY protocol, \
                             name its port: {port}:proxy=PORT"
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
    /// Opens the port, or inherits the predecessor's; returns `None` if no service is fronted.
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
        let listener = hawser_link::bind::listen(front.listen)
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
        let gateway = Arc::new(gateway.with_links(links.clone()));
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

    /// Returns the gateway that strangers connect to.
    pub(crate) fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    /// Returns the number of open sessions, and of open connections to services without a session.
    pub(crate) fn open_count(&self) -> u64 {
        self.gateway.session_count() as u64 + self.handshakes.open()
    }

    /// Stops announcing the port in handshakes, which only one process can do, until
    /// [`Self::resume`]. Sessions stay open.
    pub(crate) async fn suspend(&self) {
        self.handshakes.stop().await;
    }

    /// Announces the port in handshakes again.
    pub(crate) fn resume(&self) {
        self.handshakes.resume();
    }

    /// Ends all sessions in order, within `patience`. Keeps the return route of services' answers
    /// if another process uses it by now (`is_succeeded`).
    pub(crate) async fn end(self, patience: Duration, is_succeeded: bool) {
        drop(self.handshakes);
        self.gateway.close(patience).await;
        self.tasks.iter().for_each(AbortHandle::abort);
        if let Some(source) = self.source.filter(|_| !is_succeeded) {
            source.end().await;
        }
    }
}

/// Returns an error with the reason why listening failed, and the remedy.
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

/// Ends unused sessions, for as long as the gateway lives.
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

/// Limits for all strangers together, for those of one address, and for those of one network.
struct Limits {
    accept: AcceptLimits,
    streams: ClientLimits,
}

impl Limits {
    /// Returns limits within this number of file descriptors: strangers' streams and sessions use
    /// at most half of them, so that clients have the rest.
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

/// Limit of sessions of all strangers.
const MAX_SESSIONS: usize = 256;
const SESSIONS_PER_SOURCE: usize = 16;
const SESSIONS_PER_NETWORK: usize = 64;
/// Limit of channels of a session; each needs a descriptor.
const CHANNELS: usize = 64;
/// Most descriptors of a stream: a connection on the service's own port also keeps the client's
/// socket.
const STREAM_DESCRIPTORS: usize = 2;
const MAX_HALF_OPEN: usize = 128;
const HALF_OPEN_PER_SOURCE: usize = 16;
/// Limit of streams of one session, and of one address.
const MAX_STREAMS: u32 = 256;
const STREAMS_PER_NETWORK: usize = 1024;
const MAX_ALL_STREAMS: usize = 4096;
/// Limit of new connections; a browser opens some dozens for a page.
const CONNECTS_PER_SECOND: u32 = 100;
const CONNECT_BURST: u32 = 500;
/// Idle time after which a session ends; clients close an unused session earlier.
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
