//! A connection of its own for each request, on a link that a policy chooses.

use std::collections::BTreeMap;
use std::time::Duration;

use hawser_path::Activity;
use hawser_scenario::figures::Served;
use hawser_scenario::{Congestion, Scenario, Workload};
use hawser_sched::DemandEstimate;
use hawser_sched::connection::{
    ConnectionPolicy, ConnectionScheduler, Demand, LinkView, Load, remaining,
};
use hawser_types::{ByteCount, Instant};

use super::REQUEST;
use super::known::{COUNTED_EVERY, KnownLink, Rates};
use crate::network::{End, Happening, Network};
use crate::tcp::TcpConfig;

/// The client, its connections, and what it learns of them.
struct Client<'a> {
    network: Network,
    began: Instant,
    workload: &'a Workload,
    scheduler: Box<dyn ConnectionScheduler>,
    links: Vec<KnownLink>,
    /// By application.
    demands: Vec<DemandEstimate>,
    /// By the number of the connection.
    open: BTreeMap<usize, Open>,
    served: Vec<Served>,
    left: usize,
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
    activity: Activity,
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
    client.count();
    let limit = super::limit(scenario, workload);
    if rates == Rates::Learnt {
        client.serve(super::begin(workload, !seed), limit);
    }
    client.serve(super::begin(workload, seed), limit);
    client.served
}

impl<'a> Client<'a> {
    fn new(
        scenario: &Scenario,
        workload: &'a Workload,
        policy: ConnectionPolicy,
        rates: Rates,
        seed: u64,
    ) -> Self {
        let network = Network::new(&scenario.links, scenario.server.as_ref(), seed);
        let links = scenario.links.iter().enumerate();
        let links = links.map(|(index, link)| KnownLink::new(index, link, rates));
        Self {
            began: network.now(),
            network,
            workload,
            scheduler: policy.scheduler(),
            links: links.collect(),
            demands: vec![DemandEstimate::default(); workload.applications.len()],
            open: BTreeMap::new(),
            left: 0,
            served: Vec::new(),
        }
    }

    /// Makes connections, from now on, until all have ended.
    fn serve(&mut self, asked: Vec<Served>, limit: Duration) {
        self.began = self.network.now();
        (self.left, self.served) = (asked.len(), asked);
        for (number, served) in self.served.iter().enumerate() {
            let at = self.began + served.arrival.at;
            self.network.set_alarm(at, number as u64);
        }
        let limit = self.began + limit;
        while self.left > 0 {
            match self.network.step(limit) {
                Some(Happening::Alarm(COUNT)) => self.count(),
                Some(Happening::Alarm(number)) => self.begin(number as usize),
                Some(Happening::End(end)) => self.on_end(end),
                // Nobody sends any here.
                Some(Happening::Datagram) => {}
                None => break,
            }
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
            activity: Activity::new(self.network.now()),
        };
        self.open.insert(end.connection, open);
    }

    /// Takes note of what every connection has moved.
    fn look(&mut self) {
        let now = self.network.now();
        for (connection, open) in &mut self.open {
            let client = End {
                connection: *connection,
                client: true,
            };
            let moved = [
                self.network.acknowledged(client),
                self.network.arrived(client),
            ];
            open.activity.on_moved(now, moved.map(ByteCount::new));
        }
    }

    /// Reads the interfaces' counters.
    fn count(&mut self) {
        self.look();
        let now = self.network.now();
        let mut busy = vec![[false; 2]; self.links.len()];
        for open in self.open.values_mut() {
            let was_busy = open.activity.was_busy();
            for way in 0..2 {
                busy[open.link][way] |= was_busy[way];
            }
        }
        for (place, link) in self.links.iter_mut().enumerate() {
            link.on_counter(now, self.network.carried(place), busy[place]);
        }
        self.network.set_alarm(now + COUNTED_EVERY, COUNT);
    }

    fn views(&mut self) -> Vec<LinkView> {
        self.look();
        let now = self.network.now();
        let mut views: Vec<LinkView> = self.links.iter().map(KnownLink::view).collect();
        for open in self.open.values() {
            if open.asked && open.activity.is_idle(now, views[open.link].latency) {
                continue;
            }
            let [up, down] = open.activity.moved();
            let load = &mut views[open.link].load;
            load.connections += 1;
            load.up += remaining(open.demand.up, up);
            load.down += remaining(open.demand.down, down);
        }
        for (link, view) in self.links.iter_mut().zip(&mut views) {
            if view.load == Load::default() {
                link.on_empty();
                *view = link.view();
            }
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
            let took = self.network.now().since(open.began);
            self.links[open.link].on_handshake(took);
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
        let now = self.network.now();
        let served = &mut self.served[open.number];
        served.ended = Some(now.since(self.began));
        let moved = [ByteCount::new(REQUEST), served.arrival.size];
        self.demands[served.arrival.application].observe(moved[0], moved[1]);
        self.links[open.link].on_end(now, moved, now.since(open.began));
        self.left -= 1;
    }
}

/// The alarm at which counters are read; others are places in the list of what is to be served.
const COUNT: u64 = u64::MAX;
