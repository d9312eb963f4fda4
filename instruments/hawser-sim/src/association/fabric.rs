use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use hawser_channels::association::AssociationTunnel;
use hawser_scenario::{Fate, Line, LineState, Link};
use hawser_sctp::{
    Association, AssociationConfig, AssociationId, Endpoint, EndpointConfig, Event, Framing,
    Handled, Local, Route, Transmit,
};
use hawser_session::seal::datagram::OVERHEAD;
use hawser_types::{ByteCount, Instant, LinkIndex};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::queue::{MAX_AT_ONCE, Queue};

/// Two hosts, the links of the first one, and what is in flight.
///
/// Host 0 is the client, host 1 the server. Link `n` of the client has the index `n` + 1 and an
/// address of its own.
#[derive(Debug)]
pub struct Fabric {
    now: Instant,
    /// The client, the server.
    pub hosts: [Host; 2],
    links: BTreeMap<LinkIndex, LinkState>,
    wiring: Wiring,
    /// The client's addresses are one to the server, with a port for each link.
    translated: bool,
    /// What IP, UDP where it is used, and the seal where there is one add to a packet on the link.
    overhead: ByteCount,
    queue: Queue<Planned>,
    rng: SmallRng,
}

/// One end.
#[derive(Debug)]
pub struct Host {
    /// Where its datagrams come in.
    pub endpoint: Endpoint,
    /// Its association, once it has one.
    pub association: Option<(AssociationId, Association)>,
    /// Its addresses at present.
    pub locals: Vec<Local>,
    /// The tunnel over its association, in experiments with packets.
    pub tunnel: Option<AssociationTunnel>,
    /// What the association has told so far.
    pub events: Vec<Event>,
    planned: Option<Instant>,
}

/// Which of the server's addresses is reached over which link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wiring {
    /// Each over every link.
    Shared,
    /// The n-th over the n-th link only, as separate cables would.
    Parallel,
}

/// What a link does to packets.
#[derive(Clone, Debug)]
pub struct LinkModel {
    /// Towards the server.
    pub up: Line,
    /// Towards the client.
    pub down: Line,
    /// What it does beyond, both ways.
    pub disorder: Disorder,
}

/// What a real network does seldom, and a test often.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Disorder {
    /// Up to so much is added to the delay of each packet by itself, so that they overtake each
    /// other.
    pub late: Duration,
    /// The chance of a packet to come twice.
    pub duplicated: f64,
    /// Nothing passes.
    pub dark: bool,
    /// Nothing passes towards the client.
    pub mute: bool,
    /// Larger datagrams vanish, but for those that may go in fragments; `None`: none is too large.
    pub largest: Option<usize>,
}

#[derive(Debug)]
struct LinkState {
    /// Towards the server, towards the client.
    ways: [LineState; 2],
    disorder: Disorder,
    carried: [ByteCount; 2],
    lost: u64,
}

#[derive(Debug)]
enum Planned {
    Arrival {
        to: usize,
        route: Route,
        datagram: Bytes,
    },
    Timer(usize),
    Alarm,
}

impl Fabric {
    /// Hosts that do not know each other yet. `seed` draws everything that is random.
    pub fn new(
        config: [&AssociationConfig; 2],
        links: &[LinkModel],
        server_addresses: u8,
        seed: u64,
    ) -> Self {
        let host = |config: &AssociationConfig, locals: Vec<Local>, number: u8| Host {
            endpoint: Endpoint::new(
                EndpointConfig::new(config.clone(), &locals),
                [number; 32],
                seed ^ (u64::from(number) << 32),
            ),
            association: None,
            locals,
            tunnel: None,
            events: Vec::new(),
            planned: None,
        };
        let seal = match config[0].framing {
            Framing::Whole => 0,
            // Counts the seal of these datagrams, although the simulator does not seal.
            Framing::Compact => OVERHEAD as u64,
        };
        let client = (0..links.len()).map(client_local).collect();
        let server = (0..server_addresses).map(server_local).collect();
        let mut fabric = Self {
            now: START,
            hosts: [host(config[0], client, 1), host(config[1], server, 2)],
            links: BTreeMap::new(),
            wiring: Wiring::Shared,
            translated: false,
            overhead: ByteCount::new(IP_HEADER + UDP_HEADER + seal),
            queue: Queue::new(),
            rng: SmallRng::seed_from_u64(seed),
        };
        for (number, model) in links.iter().enumerate() {
            fabric.set_link(client_local(number).link, model);
        }
        fabric
    }

    /// The links of a scenario, in front of a server with one address.
    pub fn of_links(config: &AssociationConfig, links: &[Link], seed: u64) -> Self {
        let models: Vec<LinkModel> = links.iter().map(LinkModel::from).collect();
        Self::new([config; 2], &models, 1, seed)
    }

    /// Which of the server's addresses is reached over which link; every one over each, if not
    /// said.
    pub fn set_wiring(&mut self, wiring: Wiring) {
        self.wiring = wiring;
    }

    /// Puts an address translator between the client and the server: all links of the client have
    /// one address there, and each a port of its own. It lets answers through only.
    pub fn translate(&mut self) {
        self.translated = true;
    }

    /// What is added to an SCTP packet on the link; if not said, what IPv4 and UDP add, and for
    /// compact ones the seal.
    pub fn set_overhead(&mut self, overhead: ByteCount) {
        self.overhead = overhead;
    }

    /// Makes a link, or makes it another one. What is in flight arrives as it would have.
    pub fn set_link(&mut self, link: LinkIndex, model: &LinkModel) {
        let seed = self.rng.random();
        let way = |line: &Line, seed| LineState::new(line.clone(), seed, self.now);
        let ways = [way(&model.up, seed), way(&model.down, seed ^ 1)];
        let old = self.links.get(&link);
        let (carried, lost) = old.map_or(Default::default(), |old| (old.carried, old.lost));
        let state = LinkState {
            ways,
            disorder: model.disorder,
            carried,
            lost,
        };
        self.links.insert(link, state);
    }

    /// Changes what a link does beyond its lines.
    pub fn disorder_mut(&mut self, link: LinkIndex) -> Option<&mut Disorder> {
        self.links.get_mut(&link).map(|state| &mut state.disorder)
    }

    /// The client's links.
    pub fn links(&self) -> Vec<LinkIndex> {
        self.links.keys().copied().collect()
    }

    /// What a link has carried to its other end: towards the server, towards the client.
    pub fn carried(&self, link: LinkIndex) -> [ByteCount; 2] {
        self.links
            .get(&link)
            .map_or_else(Default::default, |state| state.carried)
    }

    /// Packets that a link lost or had no room for.
    pub fn lost(&self, link: LinkIndex) -> u64 {
        self.links.get(&link).map_or(0, |state| state.lost)
    }

    /// The present.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The client begins.
    pub fn connect(&mut self, config: &AssociationConfig) {
        let remotes: Vec<SocketAddr> = self.hosts[1].locals.iter().map(socket).collect();
        let (now, host) = (self.now, &mut self.hosts[0]);
        let config = config.clone();
        let begun = host.endpoint.connect(now, config, &host.locals, &remotes);
        host.association = Some(begun.expect("a route to the server exists, and no association"));
        self.pump(0);
    }

    /// Connects, and lets time pass until both ends know it. Returns whether that was within a
    /// while.
    pub fn establish(&mut self, config: &AssociationConfig) -> bool {
        self.connect(config);
        self.run_until(ESTABLISHED_WITHIN, |fabric| {
            let mut hosts = fabric.hosts.iter();
            hosts.all(|host| host.events.contains(&Event::Established))
        })
    }

    /// The association of a host that has one.
    pub fn association(&mut self, host: usize) -> &mut Association {
        let (_, association) = self.hosts[host].association.as_mut().expect("it was begun");
        association
    }

    /// Lets time pass until something holds, or for so long. Returns whether it holds.
    pub fn run_until(&mut self, span: Duration, mut holds: impl FnMut(&Self) -> bool) -> bool {
        let end = self.now + span;
        while !holds(self) {
            if self.step(end).is_none() {
                return holds(self);
            }
        }
        true
    }

    /// When something happens next; `None`: nothing will by itself.
    pub fn next_at(&self) -> Option<Instant> {
        self.queue.next_at()
    }

    /// Lets time pass in which nothing happens.
    ///
    /// # Panics
    /// When something would have happened before `now`.
    pub fn pass(&mut self, now: Instant) {
        assert!(
            self.next_at().is_none_or(|at| at >= now),
            "it was passed over"
        );
        self.now = self.now.max(now);
    }

    /// Lets time pass until something happens at a host, at `until` at most; returns which.
    pub fn step(&mut self, until: Instant) -> Option<usize> {
        while let Some((at, planned)) = self.queue.step(until, &mut self.now) {
            match planned {
                Planned::Arrival {
                    to,
                    route,
                    datagram,
                } => {
                    // Its address may have gone meanwhile.
                    if self.hosts[to].locals.contains(&route.local) {
                        self.arrive(to, route, datagram);
                        return Some(to);
                    }
                }
                Planned::Timer(host) if self.hosts[host].planned == Some(at) => {
                    self.on_timer(host);
                    return Some(host);
                }
                Planned::Timer(_) | Planned::Alarm => {}
            }
        }
        self.now = self.now.max(until);
        None
    }

    /// After a change from outside: sends what there is to send, takes what there is to tell.
    pub fn pump(&mut self, host: usize) {
        let now = self.now;
        let mut count = 0;
        while let Some(transmit) = self.hosts[host].poll_transmit(now) {
            count += 1;
            assert!(count < MAX_AT_ONCE, "it never stops sending");
            self.carry(host, transmit);
        }
        let state = &mut self.hosts[host];
        let Some((id, association)) = &mut state.association else {
            return;
        };
        while let Some(event) = association.poll_event() {
            match &event {
                Event::PeerAddresses(known) => state.endpoint.addresses_changed(*id, known),
                Event::Closed(_) => state.endpoint.forget(*id),
                _ => {}
            }
            state.events.push(event);
        }
        let due = state.poll_timeout();
        if let Some(at) = due.map(|at| at.max(now))
            && state.planned.is_none_or(|planned| at < planned)
        {
            state.planned = Some(at);
            self.queue.push(at, Planned::Timer(host));
        }
    }

    /// Has something happen at a time, so that [`Self::step`] does not pass over it.
    pub fn set_alarm(&mut self, at: Instant) {
        self.queue.push(at.max(self.now), Planned::Alarm);
    }

    fn on_timer(&mut self, host: usize) {
        let (now, state) = (self.now, &mut self.hosts[host]);
        state.planned = None;
        if state.poll_timeout().is_some_and(|at| at <= now) {
            state.handle_timeout(now);
        }
        self.pump(host);
    }

    fn arrive(&mut self, to: usize, route: Route, datagram: Bytes) {
        let (now, host) = (self.now, &mut self.hosts[to]);
        match host.endpoint.handle_datagram(now, route, datagram) {
            Handled::Ignored(_) => {}
            Handled::Reply(transmit) => self.carry(to, transmit),
            Handled::Accepted(id, association) => host.association = Some((id, *association)),
            Handled::For(id, packet) => {
                if let Some((own, association)) = &mut host.association
                    && *own == id
                {
                    association.handle_packet(now, route, &packet);
                    if let Some(tunnel) = &mut host.tunnel {
                        tunnel.handle_received(now, association);
                    }
                }
            }
        }
        self.pump(to);
    }

    /// Puts a datagram on its link, if it gets there.
    fn carry(&mut self, from: usize, transmit: Transmit) {
        let Transmit {
            route,
            datagram,
            may_fragment,
        } = transmit;
        let Some((link, back)) = self.passage(from, &route) else {
            return;
        };
        let Some(state) = self.links.get_mut(&link) else {
            return;
        };
        let disorder = state.disorder;
        let pieces = match disorder.largest {
            Some(most) => datagram.len().div_ceil(most.max(1)) as u64,
            None => 1,
        };
        let size = ByteCount::new(datagram.len() as u64 + self.overhead.as_u64() * pieces);
        let silent = disorder.dark || disorder.mute && from == SERVER;
        if silent || pieces > 1 && !may_fragment {
            state.lost += 1;
            return;
        }
        let Fate::Delivered(at) = state.ways[from].handle_packet(self.now, size) else {
            state.lost += 1;
            return;
        };
        state.carried[from] += size;
        let copies = 1 + u32::from(self.rng.random_bool(disorder.duplicated));
        for _ in 0..copies {
            let late = disorder.late.mul_f64(self.rng.random());
            let arrival = Planned::Arrival {
                to: 1 - from,
                route: back,
                datagram: datagram.clone(),
            };
            self.queue.push(at + late, arrival);
        }
    }

    /// The client's link that a datagram takes, and its route as the other end sees it; `None`: it
    /// leads nowhere.
    fn passage(&self, from: usize, route: &Route) -> Option<(LinkIndex, Route)> {
        let mut owners = self.hosts[1 - from].locals.iter();
        let local = *owners.find(|local| self.place(1 - from, local) == route.remote)?;
        let own = self.hosts[from].locals.contains(&route.local);
        let (client, server) = match from {
            0 => (route.local.link, local.link),
            _ => (local.link, route.local.link),
        };
        let cable = server.value().checked_sub(SERVER_LINKS) == client.value().checked_sub(1);
        let reaches = own && (self.wiring == Wiring::Shared || cable);
        let remote = self.place(from, &route.local);
        reaches.then_some((client, Route { local, remote }))
    }

    /// Where the other end sees an address of this host.
    fn place(&self, host: usize, local: &Local) -> SocketAddr {
        if self.translated && host != SERVER {
            SocketAddr::new(TRANSLATOR, PORT + local.link.value() as u16)
        } else {
            socket(local)
        }
    }
}

impl Host {
    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        let (_, association) = self.association.as_mut()?;
        match &mut self.tunnel {
            Some(tunnel) => tunnel.poll_transmit(now, association),
            None => association.poll_transmit(now),
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let (_, association) = self.association.as_ref()?;
        let tunnel = self
            .tunnel
            .as_ref()
            .and_then(AssociationTunnel::poll_timeout);
        association.poll_timeout().into_iter().chain(tunnel).min()
    }

    fn handle_timeout(&mut self, now: Instant) {
        if let Some((_, association)) = &mut self.association {
            association.handle_timeout(now);
        }
        if let Some(tunnel) = &mut self.tunnel {
            tunnel.handle_timeout(now);
        }
    }
}

impl From<&Link> for LinkModel {
    fn from(link: &Link) -> Self {
        Self {
            up: link.up.clone(),
            down: link.down.clone(),
            disorder: Disorder::default(),
        }
    }
}

/// The client's place on its link with this number, from 0.
pub fn client_local(number: usize) -> Local {
    Local {
        link: LinkIndex::new(number as u32 + 1),
        address: IpAddr::V4(Ipv4Addr::new(192, 0, 2, number as u8 + 1)),
    }
}

/// The server's place with this number, from 0.
pub fn server_local(number: u8) -> Local {
    Local {
        link: LinkIndex::new(SERVER_LINKS + u32::from(number)),
        address: IpAddr::V4(Ipv4Addr::new(198, 51, 100, number + 1)),
    }
}

fn socket(local: &Local) -> SocketAddr {
    SocketAddr::new(local.address, PORT)
}

/// The UDP port of RFC 6951.
const PORT: u16 = 9899;
/// The address that a translator shows the server.
const TRANSLATOR: IpAddr = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 1));
const SERVER: usize = 1;
const SERVER_LINKS: u32 = 1000;
/// IPv4's.
const IP_HEADER: u64 = 20;
const UDP_HEADER: u64 = 8;
/// A burst of losses goes on by the packet, and the last of those are a minute apart.
const ESTABLISHED_WITHIN: Duration = Duration::from_secs(3600);
/// Far enough from zero that nothing reaches back before the beginning.
const START: Instant = Instant::from_nanos(1_000_000_000_000);
