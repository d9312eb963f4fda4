//! Peers among the destinations of `hawser up`: enrolling with peers, finding them, and sessions
//! with them.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hawser_config::{DEFAULT_GATEWAY_PORT, GatewaySource, TransportChoice};
use hawser_control::NotBondedStatus;
use hawser_front::connect::Connect;
use hawser_front::peer::{
    HeldPeers, Passed, PeerFinder, PeerSessions, PeerSettings, Peers, ThroughGateway,
};
use hawser_keys::host_port::HostPort;
use hawser_keys::identity::{Identity, PublicKey};
use hawser_keys::store::ClientStore;
use hawser_keys::unix_time::UnixTime;
use hawser_link::bind::{SocketOptions, connect_on_link};
use hawser_link::links::{Link, usable};
use hawser_net::client::{Client, ClientConfig, FirstConnection};
use tokio::net::TcpStream;

use crate::proxy::direct::ConnectionRules;
use crate::proxy::links::Links;
use crate::proxy::rules::LinkRuleStore;
use crate::proxy::session::{Choice, ClientMaker, ENROL_PATIENCE, Target};
use crate::setup::Setup;

/// The parts that find and dial peers.
pub struct Peering {
    pub(crate) finder: PeerFinder,
    /// Sessions with peers.
    pub sessions: PeerSessions,
    pub(crate) held: HeldPeers,
    rules: ConnectionRules,
}

impl Peering {
    /// Begins to look for the peers that this machine has enrolled with, over `links`, or over
    /// those of them that `wanted` names. Sessions begin with the policies in `choice` at that
    /// time.
    pub fn start(
        setup: &Setup,
        wanted: &[String],
        (links, rules): (&Links, &Arc<LinkRuleStore>),
        connection_rules: ConnectionRules,
        choice: &Choice,
    ) -> anyhow::Result<Self> {
        let store = ClientStore::open(&setup.state)?;
        let known = Arc::new(move || {
            if let Err(error) = store.reload_if_changed() {
                tracing::debug!(%error, "can't reload the list of peers");
            }
            let gateways = store.gateways();
            let keys = gateways.iter().map(|gateway| gateway.key);
            keys.collect::<Vec<_>>()
        });
        let fall_back = setup.config.connection.peer_fallback;
        let enrolled = Arc::clone(&known);
        let held = HeldPeers::new(move || enrolled(), fall_back);
        let connect = OverOneLink::new(wanted, (links, rules));
        let settings = PeerSettings {
            keep_missing: setup.config.connection.peer_retry,
            ..PeerSettings::at_port(DEFAULT_GATEWAY_PORT)
        };
        let finder = PeerFinder::start(connect, move || known(), settings);
        let clients = PeerClients::new(setup, wanted, (links, rules), choice);
        let sessions = PeerSessions::new(move |peer, address| {
            let at = HostPort::try_from(SocketAddr::new(address, DEFAULT_GATEWAY_PORT));
            clients.start(peer, at.into_iter().collect())
        });
        Ok(Self {
            finder,
            sessions,
            held,
            rules: connection_rules,
        })
    }

    /// Returns the peers, for dialing.
    pub fn peers(&self) -> Peers {
        let (finder, sessions) = (self.finder.clone(), self.sessions.clone());
        Peers::new(finder, sessions, self.rules.clone(), self.held.clone())
    }
}

/// Creates the clients of sessions with peers.
pub(crate) struct PeerClients {
    maker: ClientMaker,
    links: Links,
    rules: Arc<LinkRuleStore>,
    choice: Choice,
}

impl PeerClients {
    /// Sessions use `links`, or those of them that `wanted` names, and begin with the policies in
    /// `choice` at that time.
    pub(crate) fn new(
        setup: &Setup,
        wanted: &[String],
        (links, rules): (&Links, &Arc<LinkRuleStore>),
        choice: &Choice,
    ) -> Self {
        Self {
            maker: ClientMaker::new(setup, &setup.state, wanted),
            links: links.clone(),
            rules: Arc::clone(rules),
            choice: Arc::clone(choice),
        }
    }

    /// Begins to connect to the peer with this key, if possible.
    pub(crate) fn start(&self, peer: PublicKey, addresses: Vec<HostPort>) -> Option<Arc<Client>> {
        let config = self.config(peer, addresses)?;
        Some(self.begin(config))
    }

    /// Like [`Self::start`], with another key for this host, which no other peer knows, and on the
    /// existing connection `first`, if there is one.
    pub(crate) fn start_as(
        &self,
        identity: Identity,
        peer: PublicKey,
        addresses: Vec<HostPort>,
        first: Option<FirstConnection>,
    ) -> Option<Arc<Client>> {
        let config = ClientConfig {
            identity,
            name: String::new(),
            reached: Vec::new(),
            ..self.config(peer, addresses)?
        };
        Some(match first {
            Some(first) => self.keep(Client::start_on(config, self.links.clone(), first)),
            None => self.begin(config),
        })
    }

    /// Like [`Self::start`], for a peer that can be reached only through the gateway where both
    /// meet.
    pub(crate) fn start_through(
        &self,
        gateway: &Arc<Client>,
        peer: PublicKey,
    ) -> Option<Arc<Client>> {
        let mut config = self.config(peer, Vec::new())?;
        config.relay = Some(Arc::new(ThroughGateway::new(Arc::clone(gateway), peer)));
        if config.transport == TransportChoice::Auto {
            // The gateway relays only traffic that UDP between the peers does not carry.
            config.transport = TransportChoice::Sctp;
        }
        Some(self.begin(config))
    }

    fn config(&self, peer: PublicKey, addresses: Vec<HostPort>) -> Option<ClientConfig> {
        let config = self.maker.config(peer, addresses, None, &self.rules);
        let mut config = config
            .inspect_err(|error| tracing::warn!(%error, "can't prepare a session with a peer"))
            .ok()?;
        let chosen = *self.choice.borrow();
        config.session.scheduler = chosen.scheduler;
        config.session.packet_scheduler = chosen.packet_scheduler;
        config.transport = chosen.transport;
        Some(config)
    }

    fn begin(&self, config: ClientConfig) -> Arc<Client> {
        self.keep(Client::start_enrolled(config, self.links.clone()))
    }

    fn keep(&self, client: Client) -> Arc<Client> {
        let client = Arc::new(client);
        // The task goes on for as long as the client lives.
        drop(self.rules.keep(&client, &self.links));
        client
    }
}

/// Enrols with the peer of an invite, unless this host has done so before; as a peer only, not as
/// the gateway for everything. Runs in the background, and logs the result.
pub(crate) fn enrol(
    setup: &Setup,
    source: &GatewaySource,
    wanted: &[String],
    links: &Links,
    rules: &LinkRuleStore,
) -> anyhow::Result<()> {
    let target = Target::find(setup, &setup.state, Some(source), wanted, rules)?;
    let Some(target) = target.filter(|target| !target.known) else {
        return Ok(());
    };
    let (key, addresses) = (target.config.gateway, target.config.addresses.clone());
    let (store, links) = (ClientStore::open(&setup.state)?, links.clone());
    tokio::spawn(async move {
        let client = Client::start(target.config, links);
        let enrolled = client.enrolled(ENROL_PATIENCE).await;
        client.close(CLOSE_PATIENCE).await;
        if let Err(error) = enrolled {
            tracing::warn!(peer = %key, %error, "enrolment with the peer has failed");
            return;
        }
        match store.remember_peer(key, &addresses, UnixTime::now()) {
            Ok(()) => tracing::info!(peer = %key, "enrolled with the peer"),
            Err(error) => tracing::warn!(peer = %key, %error, "can't save the peer"),
        }
    });
    Ok(())
}

/// Describes the problem with a peer that does not answer, in the form of the control API.
pub(crate) fn silent((address, peer, passed): (IpAddr, PublicKey, Passed)) -> NotBondedStatus {
    let becomes = match passed {
        Passed::Refused => format!(
            "connections to it are refused; `hawser peers remove {peer}` lets it go, and \
             `peer-fallback` would allow plain TCP"
        ),
        Passed::Plain => "connections to it go over plain TCP, as `peer-fallback` allows".into(),
    };
    NotBondedStatus {
        server: SocketAddr::new(address, DEFAULT_GATEWAY_PORT),
        reason: format!("the peer does not answer: {becomes}"),
    }
}

/// Connects over one of the usable links, for connections that need only one.
pub(crate) struct OverOneLink {
    links: Links,
    wanted: Vec<String>,
    rules: Arc<LinkRuleStore>,
}

impl OverOneLink {
    /// Connects over one of these `links`, or of those of them that `wanted` names.
    pub(crate) fn new(wanted: &[String], (links, rules): (&Links, &Arc<LinkRuleStore>)) -> Self {
        Self {
            links: links.clone(),
            wanted: wanted.to_vec(),
            rules: Arc::clone(rules),
        }
    }

    fn link(&self, address: IpAddr) -> Option<Link> {
        let rules = self.rules.for_director();
        let leads = |link: &Link| {
            if address.is_ipv6() {
                link.has_default_route_v6
            } else {
                link.has_default_route_v4
            }
        };
        let links = usable(&self.links.borrow(), &self.wanted);
        let links = links.into_iter().filter(leads);
        let best = links.filter_map(|link| Some((rules.place(&link)?, link)));
        Some(best.min_by_key(|(place, _)| *place)?.1)
    }
}

impl Connect for OverOneLink {
    type Stream = TcpStream;

    async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        let Some(link) = self.link(address.ip()) else {
            return Err(io::ErrorKind::NetworkUnreachable.into());
        };
        Ok(connect_on_link(Some(&link), address, &SocketOptions::default()).await?)
    }
}

const CLOSE_PATIENCE: Duration = Duration::from_secs(3);
