//! The client's daemon: the product's director, informed of connections as by `hawser-front`.
//!
//! Each connection takes the first link that the director names. `hawser-front` also tries the
//! next one when an answer is late; that is not modelled.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use hawser_director::{ConnectionRequest, Director, FlowId, Over, Progress};
use hawser_path::{KnownLink, KnownRate, Segments};
use hawser_policy::{Action, Condition, PortRange, Rule, RuleSet};
use hawser_scenario::{Application, Congestion, Scenario, Workload};
use hawser_sched::connection::ConnectionPolicy;
use hawser_types::{ByteCount, DefaultRoute, Instant, Link, LinkIndex, Rate};

use crate::network::{End, Network};
use crate::tcp::TcpConfig;

/// What is known of the links when a run begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Rates {
    /// Their rates, which are the scenario's
    Known,
    /// What another run showed while they were busy
    Learnt,
    /// Nothing
    Unknown,
}

/// The director of a client, and the connections that it counts.
#[derive(Debug)]
pub(super) struct Daemon {
    director: Director,
    links: usize,
    /// By the number of the connection.
    open: BTreeMap<usize, Counted>,
}

/// An open connection.
#[derive(Debug)]
struct Counted {
    flow: FlowId,
    link: LinkIndex,
    began: Instant,
    /// Bytes sent and received so far.
    moved: [ByteCount; 2],
    /// The time at which the kernel was last asked for its round-trip time, or at which it was
    /// answered; `None` before.
    looked: Option<Instant>,
}

impl Daemon {
    pub(super) fn new(
        now: Instant,
        scenario: &Scenario,
        workload: &Workload,
        policy: ConnectionPolicy,
        rates: Rates,
    ) -> Self {
        let mut director = Director::new(policy, Vec::new());
        director.set_rules(rules(workload));
        let count = scenario.links.len();
        let links: Vec<Link> = (0..count).map(link).collect();
        director.set_links(now, &links);
        // The system prefers the first.
        let routes = (0..count).map(|place| DefaultRoute {
            link: index(place),
            gateway: Some(neighbour(place, 1)),
        });
        director.set_default_routes(now, routes.collect());
        if rates == Rates::Known {
            let links = scenario.links.iter().enumerate();
            // By what the usage database would know them by.
            let key = |place| (name(place), neighbour(place, 1).to_string());
            let known = links.map(|(place, link)| (key(place), known(link)));
            director.load_rates(now, known.collect());
        }
        Self {
            director,
            links: count,
            open: BTreeMap::new(),
        }
    }

    /// Begins a connection of an application; `None` where no link leads anywhere.
    pub(super) fn connect(
        &mut self,
        network: &mut Network,
        workload: &Workload,
        application: usize,
    ) -> Option<End> {
        let now = network.now();
        if self.director.wants_progress(now) {
            self.tell(now);
        }
        let request = request(workload, application);
        let decision = self.director.decide_links(now, &request);
        let link = decision.candidates.first()?.link.index;
        let flow = self.director.open(now, &decision, link);
        let config = TcpConfig::new(Congestion::Cubic);
        let end = network.connect(place(link), config);
        let counted = Counted {
            flow,
            link,
            began: now,
            moved: [ByteCount::ZERO; 2],
            looked: None,
        };
        self.open.insert(end.connection, counted);
        Some(end)
    }

    /// Something has happened at the client's end of a connection.
    pub(super) fn handle_end(&mut self, network: &Network, end: End) {
        let Some(open) = self.open.get_mut(&end.connection) else {
            return;
        };
        let now = network.now();
        let Some(looked) = open.looked else {
            if network.is_established(end) {
                open.looked = Some(now);
                let took = now.since(open.began);
                self.director
                    .handle_connected(now, open.flow, now, Some(took));
            }
            return;
        };
        let moved = [network.written(end), network.arrived(end)].map(ByteCount::new);
        if std::mem::replace(&mut open.moved, moved) == moved || now.since(looked) < LOOK_EVERY {
            return;
        }
        open.looked = Some(now);
        let sample = network.sample(end);
        self.director
            .handle_round_trip(Over::Link(open.link), sample.rtt);
        self.director
            .handle_segments(now, open.flow, segments(network, end));
    }

    /// A connection has ended.
    pub(super) fn end(&mut self, network: &mut Network, end: End) {
        if let Some(open) = self.open.remove(&end.connection) {
            let now = network.now();
            let director = &mut self.director;
            director.handle_segments(now, open.flow, segments(network, end));
            director.handle_progress(now, open.flow, &open.progress());
            director.handle_end(now, open.flow);
            network.close(end, true);
        }
    }

    /// Reads the interfaces' counters. To be called every [`COUNT_EVERY`].
    pub(super) fn count(&mut self, network: &Network) {
        if self.open.is_empty() {
            return;
        }
        let now = network.now();
        self.tell(now);
        let carried = |place| (index(place), network.carried(place));
        let counters = (0..self.links).map(carried).collect();
        self.director.handle_counters(now, &counters);
    }

    /// Tells how far the connections have come.
    fn tell(&mut self, now: Instant) {
        for open in self.open.values() {
            self.director
                .handle_progress(now, open.flow, &open.progress());
        }
    }
}

impl Counted {
    fn progress(&self) -> Progress {
        Progress {
            moved: self.moved,
            ..Progress::default()
        }
    }
}

fn segments(network: &Network, end: End) -> Segments {
    let sample = network.sample(end);
    Segments {
        delivered: sample.delivered.unwrap_or_default(),
        again: sample.retransmissions,
    }
}

/// Rules that give each application its class, by its port.
fn rules(workload: &Workload) -> Arc<RuleSet> {
    let rule = |(number, application): (usize, &Application)| Rule {
        when: Condition {
            port: PortRange::new(port(number), port(number))
                .into_iter()
                .collect(),
            ..Condition::default()
        },
        then: Action {
            class: Some(application.class),
            ..Action::default()
        },
        ..Rule::default()
    };
    let applications = workload.applications.iter().enumerate();
    Arc::new(RuleSet::new(applications.map(rule)))
}

fn request(workload: &Workload, application: usize) -> ConnectionRequest {
    ConnectionRequest {
        remote: Some(SERVER),
        port: port(application),
        program: Some(workload.applications[application].name.clone()),
        ..ConnectionRequest::default()
    }
}

/// Port of an application's server.
fn port(application: usize) -> u16 {
    u16::try_from(application).map_or(u16::MAX, |number| number.saturating_add(FIRST_PORT))
}

/// The link at this place of the scenario, as the system shows it.
fn link(place: usize) -> Link {
    Link {
        addresses: vec![neighbour(place, 2)],
        has_default_route_v4: true,
        takes_ordinary_v4: place == 0,
        ..Link::new(index(place), name(place))
    }
}

/// All that it can carry.
fn known(link: &hawser_scenario::Link) -> KnownLink {
    let certain = |rate: Rate| KnownRate {
        rate,
        confidence: 1.0,
    };
    KnownLink {
        up: Some(certain(link.up.rate)),
        down: Some(certain(link.down.rate)),
        latency: None,
    }
}

fn name(place: usize) -> String {
    format!("link{}", place + 1)
}

fn neighbour(place: usize, host: u8) -> IpAddr {
    let [.., high, low] = (place as u32).to_be_bytes();
    IpAddr::V4(Ipv4Addr::new(10, high, low, host))
}

fn index(place: usize) -> LinkIndex {
    LinkIndex::new(place as u32 + 1)
}

fn place(index: LinkIndex) -> usize {
    index.value() as usize - 1
}

/// Time between two readings of the interfaces' counters.
pub(super) const COUNT_EVERY: Duration = Duration::from_millis(500);
/// Least time between two looks at a connection that moves.
const LOOK_EVERY: Duration = Duration::from_millis(500);
const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1));
/// The ports from here on are of one class, so that programs alone tell applications apart.
const FIRST_PORT: u16 = 1024;
