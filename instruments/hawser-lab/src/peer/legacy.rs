//! Destinations without Hawser: does looking for a peer there delay connections to them?

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::hosts::{Client, Hosts};
use super::options::{BLOCK, Options};
use super::port::{Answer, Port};
use crate::ip;
use crate::measure::StepError;
use crate::meter::{self, Order};
use crate::scenario::Direction;
use crate::statistics::Spread;
use crate::verdict::{Asked, Verdict};

/// Connections to hosts whose reserved port answers in one way. Times are from the call to connect
/// until the application may send, in seconds.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Legacy {
    port: Answer,
    /// The link that they take, from 1.
    link: usize,
    /// Without looking for peers.
    pub(super) off: Option<Spread>,
    /// With it.
    pub(super) auto: Option<Spread>,
    /// Number of connections to the port that the kernel or the other server saw.
    pub(super) attempts: u64,
    /// Times of each connection, in the order in which they were made.
    pub(super) off_samples: Vec<f64>,
    pub(super) auto_samples: Vec<f64>,
}

/// Measures all answers, with connections that each go to an address of its own, so that each is
/// worth a probe.
pub(super) fn measure(hosts: &Hosts<'_>, options: &Options) -> Result<Vec<Legacy>, StepError> {
    let route = format!("route add local {NETWORK}/9 dev lo");
    ip::batch(hosts.bench.lab().server(), &[route]).map_err(crate::topology::LabError::from)?;
    let links = hosts.bench.lab().links();
    let cases = Answer::ALL
        .into_iter()
        .flat_map(|answer| (0..links.len()).map(move |link| (answer, link)));
    let places = u32::from(options.rounds) * u32::from(options.connections);
    (0..)
        .step_by(places as usize)
        .zip(cases)
        .map(|(first, (answer, link))| one(hosts, options, (answer, link), first))
        .collect()
}

/// Connections over one link, so that all take as long: with several the median would say which
/// links they took. Probes have no other way either.
fn one(
    hosts: &Hosts<'_>,
    options: &Options,
    (answer, link): (Answer, usize),
    first: u32,
) -> Result<Legacy, StepError> {
    let links = &hosts.bench.lab().links()[link..=link];
    let port = Port::open(hosts.bench.lab(), answer)?;
    let mut ups = Vec::new();
    for client in [Client::PLAIN, Client::PROBING] {
        ups.push(hosts.up(client, links, SHORTEST)?);
    }
    let mut samples = [Vec::new(), Vec::new()];
    // Both first connections of a daemon are no samples.
    for client in [Client::PLAIN, Client::PROBING] {
        connect(hosts, client, first)?;
    }
    for round in 0..options.rounds {
        let begin = first + u32::from(round) * u32::from(options.connections);
        let mut turns = [(0, Client::PLAIN), (1, Client::PROBING)];
        if round % 2 == 1 {
            turns.reverse();
        }
        for (place, client) in turns {
            for n in 0..u32::from(options.connections) {
                samples[place].push(connect(hosts, client, begin + n)?);
            }
        }
        ups.iter_mut()
            .try_for_each(crate::process::Program::check_alive)?;
    }
    // The first probe may begin after the last of few connections.
    let deadline = Instant::now() + PATIENCE;
    while port.attempts()? == 0 && Instant::now() < deadline {
        std::thread::sleep(POLL);
    }
    let [off_samples, auto_samples] = samples;
    Ok(Legacy {
        port: answer,
        link: link + 1,
        off: Spread::of(&off_samples),
        auto: Spread::of(&auto_samples),
        attempts: port.attempts()?,
        off_samples,
        auto_samples,
    })
}

/// Makes a connection to one of the addresses, with some data; gives how long it took to stand.
fn connect(hosts: &Hosts<'_>, client: Client, number: u32) -> Result<f64, StepError> {
    let bench = hosts.bench;
    let order = bench.socks_order(client.socks, Direction::Put, BLOCK);
    let address = Ipv4Addr::from_bits(NETWORK.to_bits() + number);
    let server = SocketAddrV4::new(address, order.server.port());
    let order = Order { server, ..order };
    let answer = bench.lab().client().run(|| meter::first_answer(&order))?;
    Ok(answer.connected.as_secs_f64())
}

impl Legacy {
    /// The median and the 90th percentile with probes, for those without.
    pub(super) fn ratios(&self) -> Option<[f64; 2]> {
        let (off, auto) = (self.off?, self.auto?);
        Some([auto.median / off.median, auto.p90 / off.p90])
    }

    pub(super) fn verdicts(&self) -> [Verdict; 3] {
        let case = self.name();
        let [median, p90] = self.ratios().unwrap_or([f64::INFINITY; 2]);
        let beside = |which: &str| format!("{case}: {which} to connect, of that without probes");
        [
            Verdict::new(beside("median"), median, Asked::AtMost(MOST_OF_MEDIAN)),
            Verdict::new(beside("p90"), p90, Asked::AtMost(MOST_OF_P90)),
            Verdict::new(
                format!("{case}: attempts there"),
                self.attempts as f64,
                Asked::AtLeast(1.0),
            ),
        ]
    }

    pub(super) fn name(&self) -> String {
        format!("port {}, link {}", self.port.name(), self.link)
    }
}

/// Network of which the server host has every address.
const NETWORK: Ipv4Addr = Ipv4Addr::new(10, 128, 0, 0);
/// As often as can be asked for.
const SHORTEST: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);
/// Difference between two equal runs on a machine that does other things too.
const MOST_OF_MEDIAN: f64 = 1.03;
const MOST_OF_P90: f64 = 1.1;
