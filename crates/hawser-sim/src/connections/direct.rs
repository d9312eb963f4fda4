//! A connection of its own for each request, on a link that a policy chooses.

use std::collections::BTreeMap;
use std::time::Duration;

use hawser_path::DemandEstimate;
use hawser_scenario::figures::Served;
use hawser_scenario::{Congestion, Scenario, Workload};
use hawser_sched::connection::{
    ConnectionPolicy, ConnectionScheduler, Demand, LinkView, Load, remaining,
};
use hawser_types::{ByteCount, Instant, LinkIndex, Rate};

use super::REQUEST;
use crate::network::{End, Happening, Network};
use crate::tcp::TcpConfig;

/// Where the rates of links are known from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rates {
    /// They are what the scenario says.
    Nominal,
}

/// The client, its connections, and what it learns of them.
struct Client<'a> {
    network: Network,
    began: Instant,
    workload: &'a Workload,
    scheduler: Box<dyn ConnectionScheduler>,
    links: Vec<LinkState>,
    /// By application.
    demands: Vec<DemandEstimate>,
    /// By the number of the connection.
    open: BTreeMap<usize, Open>,
    served: Vec<Served>,
    left: usize,
}

#[derive(Default)]
struct LinkState {
    down: Rate,
    up: Rate,
    /// Of handshakes.
    latency: Option<Duration>,
}

/// A connection that has not ended.
struct Open {
    /// Its place in the list of what is to be served.
    number: usize,
    link: usize,
    /// What is expected of it.
    demand: Demand,
    began: Instant,
    asked: bool,
}

/// Runs a workload to its end.
pub(super) fn run(
    scenario: &Scenario,
    workload: &Workload,
    policy: ConnectionPolicy,
    rates: Rates,
    seed: u64,
) -> Vec<Served> {
    let mut client = Client::new(scenario, workload, policy, rates, seed);
    for number in 0..client.served.len() {
        let at = client.began + client.served[number].arrival.at;
        client.network.set_alarm(at, number as u64);
    }
    let limit = client.began + super::limit(scenario, workload);
    while client.left > 0 {
        match client.network.step(limit) {
            Some(Happening::Alarm(number)) => client.begin(number as usize),
            Some(Happening::End(end)) => client.on_end(end),
            None => break,
        }
    }
    client.served
}

impl<'a> Client<'a> {
    fn new(
        scenario: &Scenario,
        workload: &'a Workload,
        policy: ConnectionPolicy,
        Rates::Nominal: Rates,
        seed: u64,
    ) -> Self {
        let network = Network::new(&scenario.links, scenario.server.as_ref(), seed);
        let links = scenario.links.iter().map(|link| LinkState {
            down: link.down.rate,
            up: link.up.rate,
            latency: None,
        });
        let served = super::begin(workload, seed);
        Self {
            began: network.now(),
            network,
            workload,
            scheduler: policy.scheduler(),
            links: links.collect(),
            demands: vec![DemandEstimate::default(); workload.applications.len()],
            open: BTreeMap::new(),
            left: served.len(),
            served,
        }
    }

    fn begin(&mut self, number: usize) {
        let application = self.served[number].arrival.application;
        let learnt = self.demands[application];
        let demand = Demand {
            class: self.workload.applications[application].class,
            up: learnt.up,
            down: learnt.down,
        };
        let views = self.views();
        let Some(choice) = self.scheduler.select(&demand, &views) else {
            return;
        };
        let link = choice.link.value() as usize - 1;
        let end = self
            .network
            .connect(link, TcpConfig::new(Congestion::Cubic));
        let open = Open {
            number,
            link,
            demand,
            began: self.network.now(),
            asked: false,
        };
        self.open.insert(end.connection, open);
    }

    fn views(&self) -> Vec<LinkView> {
        let mut views = Vec::new();
        for (index, link) in self.links.iter().enumerate() {
            views.push(LinkView {
                link: LinkIndex::new(index as u32 + 1),
                up: link.up,
                down: link.down,
                latency: link.latency.unwrap_or_default(),
                load: Load::default(),
            });
        }
        for (connection, open) in &self.open {
            let client = End {
                connection: *connection,
                client: true,
            };
            let left = |demand, moved| remaining(demand, ByteCount::new(moved));
            let load = &mut views[open.link].load;
            load.connections += 1;
            load.up += left(open.demand.up, self.network.acknowledged(client));
            load.down += left(open.demand.down, self.network.arrived(client));
        }
        views
    }

    fn on_end(&mut self, end: End) {
        let Some(open) = self.open.get_mut(&end.connection) else {
            return;
        };
        let size = self.served[open.number].arrival.size;
        if !end.client {
            let heard = self.network.arrived(end) == REQUEST;
            let left = size.as_u64() - self.network.written(end);
            if heard && left > 0 {
                self.network.write(end, left);
            }
            return;
        }
        if !open.asked && self.network.is_established(end) {
            open.asked = true;
            let sample = self.network.now().since(open.began);
            self.links[open.link].learn_latency(sample);
            self.network.write(end, REQUEST);
        }
        if self.network.arrived(end) == size.as_u64() {
            self.end(end);
        }
    }

    fn end(&mut self, end: End) {
        let Some(open) = self.open.remove(&end.connection) else {
            return;
        };
        self.network.close(end, true);
        let served = &mut self.served[open.number];
        served.ended = Some(self.network.now().since(self.began));
        let application = served.arrival.application;
        self.demands[application].observe(ByteCount::new(REQUEST), served.arrival.size);
        self.left -= 1;
    }
}

impl LinkState {
    fn learn_latency(&mut self, sample: Duration) {
        self.latency = Some(match self.latency {
            Some(latency) => latency * 7 / 8 + sample / 8,
            None => sample,
        });
    }
}
