//! The state that `hawser up` shows, and what changes it while it runs.

mod steer;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Weak};

use hawser_control::{
    ConnectionsStatus, DiscoveredStatus, KillSwitchStatus, LinkStatus, NotBondedStatus,
    PlacedReport, PolicyStatus, RegistrationStatus, Request, StandbyStatus,
};
use hawser_front::connection::{SharedDirector, Who};
use hawser_front::name_stub::KnownNames;
use hawser_front::peer::{DiscoveredServers, HeldPeers, NamedPeers, PeerSessions, VouchedServers};
use hawser_front::proxy::ProxyCounters;
use hawser_keys::unix_time::UnixTime;
use hawser_net::client::Client;
use hawser_net::gateway::Gateway;
use hawser_net::session::SessionHandle;
use hawser_session::SessionSnapshot;
use hawser_session::recorder::Recorder;
use hawser_types::{ByteCount, Instant, StreamId};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::clock::since_1970;
use crate::counters::flat;
use crate::gateway::views::{read_recorder, views};
use crate::handshake::announcing::Announcing;
use crate::proxy::agent::ShownStandby;
use crate::proxy::links::Links;
use crate::proxy::live_rules::LiveRules;
use crate::proxy::packets::KillSwitchSince;
use crate::proxy::registration::ShownRegistration;
use crate::proxy::rules::LinkRuleStore;
use crate::proxy::session::Choice;
use crate::proxy::{direct, peering, placed, vouching};
use crate::refusal::Changed;
use crate::setup::link_list;
use crate::subject::{PathFacts, PlacedRange, Subject, View};

/// The parts of `hawser up` that `hawser status` shows.
pub(super) struct ClientSubject {
    /// `None` without a gateway.
    pub(super) client: Option<Weak<Client>>,
    /// Places connections on links, and decides which connections bypass the gateway.
    pub(super) director: SharedDirector,
    /// Sessions with enrolled peers, for connections to these peers.
    pub(super) peers: Option<PeerSessions>,
    /// The addresses whose connections must use a session with a peer.
    pub(super) held: Option<HeldPeers>,
    /// Sessions with servers that were discovered.
    pub(super) discovered: Option<DiscoveredServers>,
    /// Sessions with servers whose names are checked against vouchers.
    pub(super) vouched: Option<VouchedServers>,
    /// Announces this host in handshakes.
    pub(super) announcing: Option<Arc<Announcing>>,
    /// Sessions with hosts that are known by name.
    pub(super) named: Option<Arc<NamedPeers>>,
    /// Counters of the proxy port.
    pub(super) proxy: Arc<ProxyCounters>,
    /// Time since which a kill switch is on, if this daemon has found or made one.
    pub(super) kill_switch: Option<KillSwitchSince>,
    /// This host's registration with a directory.
    pub(super) registration: Option<ShownRegistration>,
    /// Counters of connections of hosts behind this machine, if it is their router.
    pub(super) lan: Option<Arc<ProxyCounters>>,
    /// Finds out which programs connect to the proxy port.
    pub(super) who: Option<Who>,
    /// Names of addresses, from the DNS queries of programs.
    pub(super) names: KnownNames,
    pub(super) links: Links,
    pub(super) wanted: Vec<String>,
    pub(super) rules: Arc<LinkRuleStore>,
    pub(super) connection_rules: LiveRules,
    pub(super) choice: Choice,
    /// Congestion control of sessions that other hosts have begun.
    pub(super) congestion: String,
    /// The links on standby.
    pub(super) standby: ShownStandby,
    /// Allows one change at a time.
    pub(super) changing: Mutex<()>,
    /// The gateway's key.
    pub(super) peer: String,
}

impl ClientSubject {
    /// Returns the clients, with the keys of their far ends.
    pub(crate) fn clients(&self) -> Vec<(String, Arc<Client>)> {
        let gateway = self.client.as_ref().and_then(Weak::upgrade);
        let gateway = gateway.map(|client| (self.peer.clone(), client));
        let peers = self.peers.as_ref().map(PeerSessions::clients);
        let peers = peers.unwrap_or_default().into_iter();
        let named = self.named.as_ref().map(|named| named.clients());
        let named = named.unwrap_or_default();
        let discovered = self.discovered.as_ref().map(DiscoveredServers::clients);
        let discovered = discovered.unwrap_or_default();
        let vouched = self.vouched.as_ref().map(VouchedServers::clients);
        let vouched = vouched.unwrap_or_default();
        gateway
            .into_iter()
            .chain(
                peers
                    .chain(named)
                    .chain(discovered)
                    .chain(vouched)
                    .map(|(key, client)| (key.to_string(), client)),
            )
            .collect()
    }

    /// Returns the status of a standby link.
    fn standby(&self, link: &str) -> Option<StandbyStatus> {
        let shown = self.standby.lock();
        shown.get(link).cloned()
    }

    /// Returns the gateway with the sessions that hosts known by name have begun.
    fn door(&self) -> Option<&Gateway> {
        self.named.as_ref().map(|named| named.door())
    }

    /// Returns the client whose current session has this name.
    fn client_of(&self, session: &str) -> Option<Arc<Client>> {
        let mut clients = self.clients().into_iter().map(|(_, client)| client);
        clients.find(|client| name(client) == session)
    }

    /// Returns the session of this name, if a client has left it for a newer one.
    fn left(&self, session: &str) -> Option<SessionHandle> {
        let clients = self.clients().into_iter();
        let mut left = clients.flat_map(|(_, client)| client.left());
        left.find(|left| left.id().to_string() == session)
    }

    /// Returns the names of the far ends of a session's flows of packets.
    fn names_in(&self, session: &Option<SessionSnapshot>) -> BTreeMap<IpAddr, Arc<str>> {
        let flows = session.iter().flat_map(|session| &session.flows);
        let ends = flows.map(|flow| flow.ends.remote.0);
        let named = ends.filter_map(|end| Some((end, self.names.name(end)?)));
        named.collect()
    }

    fn view(&self, peer: &str, client: &Client, max_streams: usize) -> View {
        let snapshot = client.snapshot(max_streams);
        let mut paths: BTreeMap<u32, PathFacts> = BTreeMap::new();
        for status in snapshot.links {
            let remote = status.remote;
            let way = PathFacts {
                address: remote.and_then(|to| status.link.source_address(to.ip())),
                link: status.link.name,
                remote,
                problem: status.problem,
            };
            paths.insert(status.link.index.value(), way);
        }
        View {
            id: name(client),
            peer: match &snapshot.problem {
                Some(problem) => format!("{peer} ({problem})"),
                None => peer.to_owned(),
            },
            is_with_gateway: peer == self.peer,
            problem: snapshot.problem,
            paths,
            scheduler: client.scheduler().name(),
            congestion: client.congestion().unwrap_or_default().to_owned(),
            transport_problem: client.association_problem(),
            names: self.names_in(&snapshot.session),
            session: snapshot.session,
            ..View::default()
        }
    }

    /// Returns the view of a session that a client has left for a newer one. The addresses of the
    /// far end are not kept for it.
    fn view_of_left(
        &self,
        (peer, client): (&str, &Client),
        left: &SessionHandle,
        max_streams: usize,
    ) -> View {
        let session = left.snapshot(max_streams);
        let addresses = left.addresses(&session);
        let links = self.links.borrow();
        let paths = session.channels.iter().map(|channel| {
            let link = links.iter().find(|link| link.index == channel.link);
            let facts = PathFacts {
                link: link.map(|link| link.name.clone()).unwrap_or_default(),
                address: addresses.get(&(channel.id, channel.link)).copied(),
                ..PathFacts::default()
            };
            (channel.link.value(), facts)
        });
        let paths = paths.collect();
        drop(links);
        let session = Some(session);
        View {
            id: left.id().to_string(),
            peer: peer.to_owned(),
            is_with_gateway: peer == self.peer,
            is_left: true,
            paths,
            scheduler: client.scheduler().name(),
            congestion: client.congestion().unwrap_or_default().to_owned(),
            names: self.names_in(&session),
            session,
            ..View::default()
        }
    }
}

impl Subject for ClientSubject {
    fn sessions(&self, wanted: &dyn Fn(&str) -> bool, max_streams: usize) -> Vec<View> {
        let clients = self.clients();
        let mut own = Vec::new();
        for (peer, client) in &clients {
            if wanted(&name(client)) {
                own.push(self.view(peer, client, max_streams));
            }
            let left = client.left().into_iter();
            let left = left.filter(|left| wanted(&left.id().to_string()));
            own.extend(left.map(|left| self.view_of_left((peer, client), &left, max_streams)));
        }
        let others = self
            .door()
            .map(|door| views(door, wanted, max_streams, &self.congestion));
        own.extend(others.unwrap_or_default());
        own
    }

    fn session_count(&self) -> usize {
        let clients = self.clients().into_iter();
        let own: usize = clients.map(|(_, client)| 1 + client.left().len()).sum();
        own + self.door().map_or(0, Gateway::session_count)
    }

    fn programs(&self, session: &str, streams: &[StreamId]) -> BTreeMap<StreamId, Arc<str>> {
        match self.client_of(session) {
            Some(client) => client.labels(streams),
            None => {
                let left = self.left(session);
                left.map_or_else(BTreeMap::new, |left| left.labels(streams))
            }
        }
    }

    fn sought(&self) -> Option<watch::Receiver<usize>> {
        self.who.as_ref().map(Who::open)
    }

    fn links(&self) -> Vec<LinkStatus> {
        let gateway = self.client.as_ref().and_then(Weak::upgrade);
        let is_near = gateway.is_some_and(|client| client.is_local());
        let mut list = link_list(&self.links.borrow(), &self.wanted, is_near);
        let ranking = self.director.report().ranking();
        for link in &mut list {
            let place = ranking.iter().position(|index| *index == link.index);
            link.rank = place.map(|place| place as u64 + 1);
            link.allowed = self.rules.allowed(&link.name);
            link.signal = self.rules.signal(&link.name);
            link.modem = self.rules.modem(&link.name);
            link.standby = self.standby(&link.name);
        }
        list
    }

    fn kill_switch(&self) -> Option<KillSwitchStatus> {
        let since = (*self.kill_switch.as_ref()?.borrow())?;
        Some(KillSwitchStatus {
            since_unix_ms: since.as_secs().saturating_mul(1000),
            age: UnixTime::now().since(since),
        })
    }

    fn registration(&self) -> Option<RegistrationStatus> {
        Some(self.registration.as_ref()?.status())
    }

    fn connections(&self) -> Option<ConnectionsStatus> {
        let over_peers = self.peers.as_ref().map_or(0, PeerSessions::opened);
        let discovered = self.discovered.as_ref();
        let over_peers = over_peers + discovered.map_or(0, DiscoveredServers::opened);
        let vouched = self.vouched.as_ref();
        let over_peers = over_peers + vouched.map_or(0, VouchedServers::opened);
        let amiss = discovered.map(DiscoveredServers::not_bonded);
        let amiss = amiss.into_iter().flatten().map(|it| NotBondedStatus {
            server: it.at,
            reason: it.problem.to_string(),
        });
        let silent = self.held.as_ref().map(HeldPeers::silent);
        let silent = silent.into_iter().flatten().map(peering::silent);
        let found = discovered.map(DiscoveredServers::found);
        let found = found.into_iter().flatten().map(|it| DiscoveredStatus {
            server: it.at,
            key: it.key.to_string(),
            by: if it.by_handshake {
                "handshake"
            } else {
                "probe"
            }
            .to_owned(),
            is_bonded: it.is_bonded,
        });
        let not_asked = self.announcing.as_ref().map(|it| it.not_asked());
        Some(ConnectionsStatus {
            not_bonded: amiss.chain(silent).collect(),
            discovered: found.collect(),
            vouched: vouched.map(vouching::status).unwrap_or_default(),
            not_asked: not_asked.unwrap_or_default(),
            ..direct::status(&self.director, over_peers)
        })
    }

    fn moved(&self) -> BTreeMap<String, [ByteCount; 2]> {
        self.director.moved()
    }

    fn placed(&self, which: PlacedRange) -> Option<PlacedReport> {
        Some(placed::report(&self.director, which, since_1970()))
    }

    fn policy(&self) -> Option<PolicyStatus> {
        Some(self.policy_status())
    }

    fn change(&self, asked: &Request) -> Option<Changed> {
        Some(self.do_otherwise(asked))
    }

    fn recorder(&self, session: &str, read: &mut dyn FnMut(&Recorder, Instant)) -> bool {
        if let Some(client) = self.client_of(session) {
            return client.recorder(read).is_some();
        }
        if let Some(left) = self.left(session) {
            left.recorder(read);
            return true;
        }
        self.door()
            .is_some_and(|door| read_recorder(door, session, read))
    }

    fn client(&self, session: &str) -> Option<Arc<Client>> {
        self.client_of(session)
    }

    fn counters(&self) -> BTreeMap<String, u64> {
        let mut list = BTreeMap::new();
        flat(&mut list, "proxy", &self.proxy.snapshot());
        if let Some(lan) = &self.lan {
            flat(&mut list, "lan", &lan.snapshot());
        }
        if let Some(door) = self.door() {
            flat(&mut list, "door", &door.counters());
        }
        if let Some(announcing) = &self.announcing {
            announcing.count(&mut list);
        }
        list
    }
}

/// Returns the name of a client's session; `-` while it is being established.
fn name(client: &Client) -> String {
    let id = client.session_id();
    id.map_or_else(|| "-".to_owned(), |id| id.to_string())
}
