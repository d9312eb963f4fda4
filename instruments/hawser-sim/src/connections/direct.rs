//! One connection for each request, on a link that the product's director chooses.

use std::collections::BTreeMap;
use std::time::Duration;

use hawser_scenario::figures::Served;
use hawser_scenario::{Scenario, Workload};
use hawser_sched::connection::ConnectionPolicy;
use hawser_types::Instant;

use super::daemon::{COUNT_EVERY, Daemon, Rates};
use super::requests::{self, REQUEST};
use crate::network::{End, Happening, Network};

/// The client: its applications, and the daemon that connects for them.
struct Client<'a> {
    network: Network,
    workload: &'a Workload,
    daemon: Daemon,
    began: Instant,
    /// By the number of the connection: its place in the list of what is to be served.
    open: BTreeMap<usize, usize>,
    served: Vec<Served>,
    left: usize,
}

/// Runs a workload to its end.
pub(super) fn run(
    scenario: &Scenario,
    workload: &Workload,
    policy: ConnectionPolicy,
    rates: Rates,
    seed: u64,
) -> Vec<Served> {
    let network = Network::new(&scenario.links, scenario.server.as_ref(), seed);
    let mut client = Client {
        daemon: Daemon::new(network.now(), scenario, workload, policy, rates),
        began: network.now(),
        network,
        workload,
        open: BTreeMap::new(),
        left: 0,
        served: Vec::new(),
    };
    client.count();
    let limit = requests::limit(scenario, workload);
    if rates == Rates::Learnt {
        client.serve(requests::planned(workload, !seed), limit);
    }
    client.serve(requests::planned(workload, seed), limit);
    client.served
}

impl Client<'_> {
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
                Some(Happening::End(end)) if end.client => self.on_client(end),
                Some(Happening::End(end)) => self.on_server(end),
                // No datagrams are sent in this simulation.
                Some(Happening::Datagram) => {}
                None => break,
            }
        }
    }

    fn count(&mut self) {
        self.daemon.count(&self.network);
        let next = self.network.now() + COUNT_EVERY;
        self.network.set_alarm(next, COUNT);
    }

    fn begin(&mut self, number: usize) {
        let application = self.served[number].arrival.application;
        let begun = self
            .daemon
            .connect(&mut self.network, self.workload, application);
        if let Some(end) = begun {
            self.open.insert(end.connection, number);
        }
    }

    /// The server answers a request once it has all of it.
    fn on_server(&mut self, end: End) {
        let Some(number) = self.open.get(&end.connection) else {
            return;
        };
        let size = self.served[*number].arrival.size.as_u64();
        let left = size - self.network.written(end);
        if left > 0 && self.network.arrived(end) == REQUEST {
            self.network.write(end, left);
        }
    }

    /// The client asks once it is connected, and closes once it has the answer.
    fn on_client(&mut self, end: End) {
        let Some(number) = self.open.get(&end.connection).copied() else {
            return;
        };
        if self.network.is_established(end) && self.network.written(end) == 0 {
            self.network.write(end, REQUEST);
        }
        self.daemon.handle_end(&self.network, end);
        let served = &mut self.served[number];
        if self.network.arrived(end) == served.arrival.size.as_u64() {
            served.ended = Some(self.network.now().since(self.began));
            self.daemon.end(&mut self.network, end);
            self.open.remove(&end.connection);
            self.left -= 1;
        }
    }
}

/// The alarm at which counters are read; others are places in the list of what is to be served.
const COUNT: u64 = u64::MAX;
