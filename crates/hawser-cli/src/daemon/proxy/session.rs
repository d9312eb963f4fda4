//! The client's side of `up`, `send` and `bench`: which gateway, and how to reach it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use anyhow::Context as _;
use hawser_config::{GatewaySource, SessionConfig, TransportChoice};
use hawser_control::{ConnectionsStatus, LinkStatus, PlacedReport, PolicyStatus, Request};
use hawser_front::connection::{Director, Who};
use hawser_front::peer::PeerSessions;
use hawser_front::proxy::ProxyCounters;
use hawser_net::client::{Client, ClientConfig};
use hawser_net::host_port::HostPort;
use hawser_net::identity::{IdentityError, PublicKey};
use hawser_net::invite::{Invite, read_reference};
use hawser_net::links::Link;
use hawser_net::store::{ClientStore, StateDir};
use hawser_net::unix_time::UnixTime;
use hawser_sched::chunk::ChunkPolicy;
use hawser_session::recorder::Recorder;
use hawser_types::{ByteCount, Instant, StreamId};
use tokio::sync::watch;

use crate::daemon::proxy::direct;
use crate::daemon::proxy::live_rules::LiveRules;
use crate::daemon::proxy::placed::{self, Which};
use crate::daemon::proxy::rules::LinkRules;
use crate::daemon::proxy::steer::Changed;
use crate::daemon::{Subject, View, Way, flat, since_1970};
use crate::setup::{Setup, link_list};

/// The links of this machine, as they come and go.
pub(crate) type Links = watch::Receiver<Arc<Vec<Link>>>;

/// What is chosen for all sessions of a daemon, later ones too.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionChoice {
    /// What places their chunks.
    pub(crate) scheduler: ChunkPolicy,
    /// What they travel over.
    pub(crate) transport: TransportChoice,
}

/// The same, as it may be changed.
pub(crate) type Choice = Arc<watch::Sender<SessionChoice>>;

impl SessionChoice {
    /// As the configuration has it, until something else is said.
    pub(crate) fn of(config: &SessionConfig) -> Choice {
        Arc::new(watch::Sender::new(Self {
            scheduler: config.scheduler,
            transport: config.transport,
        }))
    }
}

/// How to reach a gateway, and whether it knows this client.
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
        rules: &LinkRules,
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
        let has_invite = self.config.invite.is_some();
        if self.known {
            if has_invite {
                // Becomes the one to use when none is named, with what may be new addresses.
                ClientStore::open(state)?.remember(gateway, &addresses, UnixTime::now())?;
            }
            return Ok(Client::start_enrolled(self.config, links));
        }
        let client = Client::start(self.config, links);
        client
            .enrolled(ENROL_PATIENCE)
            .await
            .context("enrolment failed")?;
        ClientStore::open(state)?.remember(gateway, &addresses, UnixTime::now())?;
        Ok(client)
    }
}

/// What the clients of one daemon have in common.
pub(crate) struct ClientMaker {
    state: StateDir,
    session: SessionConfig,
    links: Vec<String>,
}

impl ClientMaker {
    /// For clients with the key of `state`, over those `links`, or over all.
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
        rules: &LinkRules,
    ) -> Result<ClientConfig, IdentityError> {
        Ok(ClientConfig {
            identity: self.state.identity()?,
            gateway,
            addresses,
            invite,
            name: machine_name(),
            links: self.links.clone(),
            rules: rules.terms(),
            session: self.session.for_session(MAX_STREAMS),
            congestion: self.session.congestion.name(),
            express: self.session.express,
            transport: self.session.transport,
        })
    }
}

/// What `hawser status` shows of `hawser up`.
pub(crate) struct ClientSubject {
    /// None where there is no gateway.
    pub(crate) client: Option<Weak<Client>>,
    /// Who places connections on links, and decides which go straight.
    pub(crate) director: Option<Director>,
    /// Sessions with destinations themselves.
    pub(crate) peers: Option<PeerSessions>,
    pub(crate) proxy: Arc<ProxyCounters>,
    /// Finds out which programs ask at the proxy port.
    pub(crate) who: Option<Who>,
    pub(crate) links: Links,
    pub(crate) wanted: Vec<String>,
    pub(crate) rules: Arc<LinkRules>,
    pub(crate) connection_rules: LiveRules,
    pub(crate) choice: Choice,
    /// One change at a time.
    pub(crate) changing: Mutex<()>,
    /// The gateway's key.
    pub(crate) peer: String,
}

impl ClientSubject {
    /// Of a daemon that has neither sessions nor connections yet.
    pub(crate) fn new(
        setup: &Setup,
        wanted: &[String],
        links: &Links,
        rules: &Arc<LinkRules>,
        connection_rules: &LiveRules,
    ) -> Self {
        Self {
            client: None,
            director: None,
            peers: None,
            proxy: Arc::default(),
            who: None,
            links: links.clone(),
            wanted: wanted.to_vec(),
            rules: Arc::clone(rules),
            connection_rules: connection_rules.clone(),
            choice: SessionChoice::of(&setup.config.session),
            changing: Mutex::default(),
            peer: String::new(),
        }
    }

    /// The clients, with the keys of those at the other end.
    pub(crate) fn clients(&self) -> Vec<(String, Arc<Client>)> {
        let gateway = self.client.as_ref().and_then(Weak::upgrade);
        let gateway = gateway.map(|client| (self.peer.clone(), client));
        let peers = self.peers.as_ref().map(PeerSessions::clients);
        let peers = peers.unwrap_or_default().into_iter();
        gateway
            .into_iter()
            .chain(peers.map(|(key, client)| (key.to_string(), client)))
            .collect()
    }

    /// The client whose session has this name.
    fn client_of(&self, session: &str) -> Option<Arc<Client>> {
        let mut clients = self.clients().into_iter().map(|(_, client)| client);
        clients.find(|client| name(client) == session)
    }

    fn view(&self, peer: &str, client: &Client, max_streams: usize) -> View {
        let snapshot = client.snapshot(max_streams);
        let mut ways: BTreeMap<u32, Way> = BTreeMap::new();
        for status in snapshot.links {
            let remote = status.remote;
            let way = Way {
                address: remote.and_then(|to| status.link.source_address(to.ip())),
                link: status.link.name,
                remote,
                problem: status.problem,
            };
            ways.insert(status.link.index, way);
        }
        View {
            id: name(client),
            peer: match snapshot.problem {
                Some(problem) => format!("{peer} ({problem})"),
                None => peer.to_owned(),
            },
            ways,
            scheduler: client.scheduler().name(),
            congestion: client.congestion().unwrap_or_default().to_owned(),
            addresses: BTreeMap::new(),
            transport_problem: client.association_problem(),
            session: snapshot.session,
        }
    }
}

impl Subject for ClientSubject {
    fn sessions(&self, wanted: &dyn Fn(&str) -> bool, max_streams: usize) -> Vec<View> {
        let clients = self.clients();
        let wanted = clients.iter().filter(|(_, client)| wanted(&name(client)));
        let view = |(peer, client): &(String, Arc<Client>)| self.view(peer, client, max_streams);
        wanted.map(view).collect()
    }

    fn session_count(&self) -> usize {
        self.clients().len()
    }

    fn programs(&self, session: &str, streams: &[StreamId]) -> BTreeMap<StreamId, Arc<str>> {
        let client = self.client_of(session);
        client.map_or_else(BTreeMap::new, |client| client.labels(streams))
    }

    fn sought(&self) -> Option<watch::Receiver<usize>> {
        self.who.as_ref().map(Who::open)
    }

    fn links(&self) -> Vec<LinkStatus> {
        let gateway = self.client.as_ref().and_then(Weak::upgrade);
        let is_near = gateway.is_some_and(|client| client.is_local());
        let mut list = link_list(&self.links.borrow(), &self.wanted, is_near);
        for link in &mut list {
            link.allowed = self.rules.allowed(&link.name);
        }
        list
    }

    fn connections(&self) -> Option<ConnectionsStatus> {
        let over_peers = self.peers.as_ref().map_or(0, PeerSessions::opened);
        let director = self.director.as_ref();
        director.map(|director| direct::status(director, over_peers))
    }

    fn moved(&self) -> BTreeMap<String, [ByteCount; 2]> {
        let director = self.director.as_ref();
        director.map(Director::moved).unwrap_or_default()
    }

    fn placed(&self, which: Which) -> Option<PlacedReport> {
        let director = self.director.as_ref()?;
        Some(placed::report(director, which, since_1970()))
    }

    fn policy(&self) -> Option<PolicyStatus> {
        Some(self.policy_status())
    }

    fn change(&self, asked: &Request) -> Option<Changed> {
        Some(self.do_otherwise(asked))
    }

    fn recorder(&self, session: &str, read: &mut dyn FnMut(&Recorder, Instant)) -> bool {
        let client = self.client_of(session);
        client.is_some_and(|client| client.recorder(read).is_some())
    }

    fn counters(&self) -> BTreeMap<String, u64> {
        let mut list = BTreeMap::new();
        flat(&mut list, "proxy", &self.proxy.snapshot());
        list
    }
}

/// The name of a client's session; `-` while it is being made.
fn name(client: &Client) -> String {
    let id = client.session_id();
    id.map_or_else(|| "-".to_owned(), |id| id.to_string())
}

fn reference(source: &GatewaySource) -> String {
    match source {
        GatewaySource::Url(url) => url.clone(),
        GatewaySource::File(path) => format!("@{}", path.display()),
    }
}

fn machine_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

/// How many streams a gateway may open here at once.
const MAX_STREAMS: u32 = 1024;
/// How long enrolling may take.
pub(crate) const ENROL_PATIENCE: Duration = Duration::from_secs(30);
