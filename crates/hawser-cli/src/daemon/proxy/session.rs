//! The client's side of `up`, `send` and `bench`: which gateway, and how to reach it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use hawser_config::{GatewaySource, SessionConfig, TransportChoice};
use hawser_control::span;
use hawser_net::client::{Client, ClientConfig, OpenStreamError};
use hawser_net::host_port::HostPort;
use hawser_net::identity::{IdentityError, PublicKey};
use hawser_net::invite::{Invite, read_reference};
use hawser_net::store::{ClientStore, StateDir};
use hawser_net::unix_time::UnixTime;
use hawser_sched::chunk::ChunkPolicy;
use hawser_sched::packet::PacketPolicy;
use tokio::sync::watch;

use super::links::Links;
use super::rules::LinkRuleStore;
use crate::setup::Setup;

/// The choices for all sessions of a daemon, later ones too.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionChoice {
    /// Policy for their chunks.
    pub(crate) scheduler: ChunkPolicy,
    /// Policy for their packets.
    pub(crate) packet_scheduler: PacketPolicy,
    /// Their transport.
    pub(crate) transport: TransportChoice,
}

/// The same, as it may be changed.
pub(crate) type Choice = Arc<watch::Sender<SessionChoice>>;

impl SessionChoice {
    /// As the configuration has it, until something else is said.
    pub(crate) fn of(config: &SessionConfig) -> Choice {
        Arc::new(watch::Sender::new(Self {
            scheduler: config.scheduler,
            packet_scheduler: config.packet_scheduler,
            transport: config.transport,
        }))
    }
}

/// Address of a gateway, and whether it knows this client.
pub(crate) struct Target {
    /// The gateway, and the invite where one was given.
    pub(crate) config: ClientConfig,
    /// This client has enrolled there before.
    pub(crate) known: bool,
}

impl Target {
    /// The gateway that `source` names, or else the one that `state` enrolled with last, over the
    /// links in `links`, as far as `rules` allow.
    pub(crate) fn find(
        setup: &Setup,
        state: &StateDir,
        source: Option<&GatewaySource>,
        links: &[String],
        rules: &LinkRuleStore,
    ) -> anyhow::Result<Option<Self>> {
        state.prepare()?;
        let store = ClientStore::open(state)?;
        let (gateway, addresses, invite, known) = match source {
            Some(source) => {
                let invite = read_reference(&reference(source))?;
                let (key, addresses) = (invite.gateway(), invite.addresses().to_vec());
                let known = store.gateway(&key).is_some();
                (key, addresses, Some(invite), known)
            }
            None => match store.default_gateway() {
                Some(gateway) => (gateway.key, gateway.addresses, None, true),
                None => return Ok(None),
            },
        };
        let maker = ClientMaker::new(setup, state, links);
        let config = maker.config(gateway, addresses, invite, rules)?;
        Ok(Some(Self { config, known }))
    }

    /// Connects; returns once this client is enrolled, at once if it was before.
    pub(crate) async fn connect(self, state: &StateDir, links: Links) -> anyhow::Result<Client> {
        let (gateway, addresses) = (self.config.gateway, self.config.addresses.clone());
        let expires = self.config.invite.as_ref().map(Invite::expires);
        let store = ClientStore::open(state)?;
        if self.known {
            if expires.is_some() {
                // Becomes the one to use when none is named, with what may be new addresses.
                let written = store.remember(gateway, &addresses, UnixTime::now());
                if let Err(error) = written {
                    tracing::warn!(%error, "can't make this gateway the one to use");
                }
            }
            let client = Client::start_enrolled(self.config, links);
            tokio::spawn(keep_reached(store, gateway, client.reached()));
            return Ok(client);
        }
        let client = Client::start(self.config, links);
        if let Err(error) = client.enrolled(ENROL_PATIENCE).await {
            let problem = match (expires, &error) {
                (Some(expires), OpenStreamError::NotAdmitted) => refused_invite(expires),
                _ => error.to_string(),
            };
            bail!("enrolment failed: {problem}");
        }
        store.remember(gateway, &addresses, UnixTime::now())?;
        let mut reached = client.reached();
        // Was reached already.
        reached.mark_changed();
        tokio::spawn(keep_reached(store, gateway, reached));
        Ok(client)
    }
}

/// Why a gateway does not take an invite that it was valid to take until `expires`.
fn refused_invite(expires: UnixTime) -> String {
    let now = UnixTime::now();
    let why = if now >= expires {
        format!("the invite has expired {} ago", span(now.since(expires)))
    } else {
        "the gateway refuses the invite: one client has used it, or it was revoked; or \
          the gateway has revoked this client"
            .to_owned()
    };
    format!("{why}. `hawser invite` at the gateway makes a new one")
}

/// True if a gateway is enrolled, so that none need be named.
pub(crate) fn is_enrolled(state: &StateDir) -> anyhow::Result<bool> {
    state.prepare()?;
    Ok(ClientStore::open(state)?.default_gateway().is_some())
}

/// Common parts of the clients of one daemon.
pub(crate) struct ClientMaker {
    state: StateDir,
    session: SessionConfig,
    links: Vec<String>,
}

impl ClientMaker {
    /// Creates clients with the key of `state`, over those `links`, or over all.
    pub(crate) fn new(setup: &Setup, state: &StateDir, links: &[String]) -> Self {
        Self {
            state: state.clone(),
            session: setup.config.session.clone(),
            links: links.to_vec(),
        }
    }

    /// A client of the gateway or peer with a key.
    pub(crate) fn config(
        &self,
        gateway: PublicKey,
        addresses: Vec<HostPort>,
        invite: Option<Invite>,
        rules: &LinkRuleStore,
    ) -> Result<ClientConfig, IdentityError> {
        Ok(ClientConfig {
            identity: self.state.identity()?,
            gateway,
            addresses,
            reached: self.reached(&gateway),
            invite,
            name: machine_name(),
            links: self.links.clone(),
            rules: rules.in_force(),
            session: self.session.for_session(MAX_STREAMS),
            congestion: self.session.congestion.name(),
            express: self.session.express,
            transport: self.session.transport,
            relay: None,
            join_port: None,
        })
    }

    /// Where the gateway was reached in earlier runs.
    fn reached(&self, gateway: &PublicKey) -> Vec<SocketAddr> {
        let store = ClientStore::open(&self.state);
        let known = store.ok().and_then(|store| store.gateway(gateway));
        known.map_or_else(Vec::new, |known| known.reached)
    }
}

/// Writes down where the gateway is reached, for the next start, for as long as the client lives.
async fn keep_reached(
    store: ClientStore,
    gateway: PublicKey,
    mut reached: watch::Receiver<Vec<SocketAddr>>,
) {
    while reached.changed().await.is_ok() {
        let latest = reached.borrow_and_update().clone();
        if let Err(error) = store.note_reached(&gateway, &latest) {
            tracing::warn!(%error, "can't save where the gateway was reached");
        }
    }
}

/// The invite that `source` names, as it is read.
pub(crate) fn reference(source: &GatewaySource) -> String {
    match source {
        GatewaySource::Url(url) => url.clone(),
        GatewaySource::File(path) => format!("@{}", path.display()),
        // Was read before, where that is possible.
        GatewaySource::Stdin => "-".to_owned(),
    }
}

fn machine_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

/// Number of streams a gateway may open here at once.
const MAX_STREAMS: u32 = 1024;
/// Longest time for enrolling.
pub(crate) const ENROL_PATIENCE: Duration = Duration::from_secs(30);
