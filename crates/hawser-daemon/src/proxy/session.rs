//! The client's side of `up`, `send` and `bench`: the gateway, and its addresses.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use hawser_config::{GatewaySource, SessionConfig, TransportChoice};
use hawser_keys::host_port::HostPort;
use hawser_keys::identity::{IdentityError, PublicKey};
use hawser_keys::invite::{Invite, read_reference};
use hawser_keys::store::{ClientStore, StateDir};
use hawser_keys::unix_time::UnixTime;
use hawser_net::client::{Client, ClientConfig, OpenStreamError};
use hawser_sched::chunk::ChunkPolicy;
use hawser_sched::packet::PacketPolicy;
use hawser_text::span;
use tokio::sync::watch;

use super::links::Links;
use super::rules::LinkRuleStore;
use crate::setup::Setup;

/// The policies for all sessions of a daemon, including later ones.
#[derive(Clone, Copy, Debug)]
pub struct SessionChoice {
    /// Policy for chunks.
    pub(crate) scheduler: ChunkPolicy,
    /// Policy for packets.
    pub(crate) packet_scheduler: PacketPolicy,
    /// Transport of the sessions.
    pub(crate) transport: TransportChoice,
}

/// The policies, which may be changed at run time.
pub(crate) type Choice = Arc<watch::Sender<SessionChoice>>;

impl SessionChoice {
    /// Returns the configured policies, until they are changed.
    pub fn of(config: &SessionConfig) -> Choice {
        Arc::new(watch::Sender::new(Self {
            scheduler: config.scheduler,
            packet_scheduler: config.packet_scheduler,
            transport: config.transport,
        }))
    }
}

/// Address of a gateway, and whether it knows this client.
pub struct Target {
    /// The gateway, and the invite if one was given.
    pub config: ClientConfig,
    /// True if this client has enrolled there before.
    pub known: bool,
}

impl Target {
    /// Returns the gateway that `source` names, or else the one that `state` enrolled with last,
    /// for the links in `links`, as far as `rules` allow.
    pub fn find(
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

    /// Connects; returns once this client is enrolled, or at once if it was enrolled before.
    pub async fn connect(self, state: &StateDir, links: Links) -> anyhow::Result<Client> {
        let (gateway, addresses) = (self.config.gateway, self.config.addresses.clone());
        let expires = self.config.invite.as_ref().map(Invite::expires);
        let store = ClientStore::open(state)?;
        if self.known {
            if expires.is_some() {
                // The gateway becomes the default one, with its addresses, which may be new.
                let written = store.remember(gateway, &addresses, UnixTime::now());
                if let Err(error) = written {
                    tracing::warn!(%error, "can't save this gateway as the default");
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
        // The gateway was reached before the receiver was created.
        reached.mark_changed();
        tokio::spawn(keep_reached(store, gateway, reached));
        Ok(client)
    }
}

/// Returns why a gateway does not accept an invite that is valid until `expires`.
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

/// Returns whether this host has enrolled with a gateway, so that the user need not name one.
pub fn is_enrolled(state: &StateDir) -> anyhow::Result<bool> {
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
    /// Prepares clients with the key of `state`, over `links`, or over all links if `links` is
    /// empty.
    pub(crate) fn new(setup: &Setup, state: &StateDir, links: &[String]) -> Self {
        Self {
            state: state.clone(),
            session: setup.config.session.clone(),
            links: links.to_vec(),
        }
    }

    /// Returns the configuration of a client of the gateway or peer with this key.
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

    /// Returns the addresses at which the gateway was reached in earlier runs.
    fn reached(&self, gateway: &PublicKey) -> Vec<SocketAddr> {
        let store = ClientStore::open(&self.state);
        let known = store.ok().and_then(|store| store.gateway(gateway));
        known.map_or_else(Vec::new, |known| known.reached)
    }
}

/// Saves the addresses at which the gateway is reached, for the next start, while the client lives.
async fn keep_reached(
    store: ClientStore,
    gateway: PublicKey,
    mut reached: watch::Receiver<Vec<SocketAddr>>,
) {
    while reached.changed().await.is_ok() {
        let latest = reached.borrow_and_update().clone();
        if let Err(error) = store.note_reached(&gateway, &latest) {
            tracing::warn!(%error, "can't save the addresses at which the gateway was reached");
        }
    }
}

/// Returns the reference to the invite in `source`, as `read_reference` takes it.
pub fn reference(source: &GatewaySource) -> String {
    match source {
        GatewaySource::Url(url) => url.clone(),
        GatewaySource::File(path) => format!("@{}", path.display()),
        // Standard input was read before, if possible.
        GatewaySource::Stdin => "-".to_owned(),
    }
}

fn machine_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

/// Limit of streams that a gateway may have open here.
const MAX_STREAMS: u32 = 1024;
/// Longest time for the orderly end of a session.
pub const END_PATIENCE: Duration = Duration::from_secs(3);
/// Longest time for enrolling.
pub(crate) const ENROL_PATIENCE: Duration = Duration::from_secs(30);
