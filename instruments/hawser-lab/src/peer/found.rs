//! A host on which Hawser is started while connections to it are opened: time until they are
//! bonded, and fate of the old ones.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use hawser_types::{ByteCount, Rate};
use serde::Serialize;

use super::hosts::{Client, Hosts};
use super::options::{BLOCK, Options};
use crate::measure::{StepError, limit_for};
use crate::meter::{self, Order};
use crate::scenario::{Direction, Scenario};
use crate::statistics::median;
use crate::verdict::{Asked, Verdict};

/// One start of a peer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Found {
    /// Time for which connections had been made before.
    pub(super) before_seconds: f64,
    /// From when the peer listens until a connection is made that turns out to be bonded; nothing
    /// when there was none in time.
    pub(super) bonded_after_seconds: Option<f64>,
    /// Number of connections from the beginning until then.
    connections: u32,
    /// One download before, over a link, and one that began after.
    pub(super) direct_mbps: f64,
    pub(super) bonded_mbps: f64,
    /// The download that was in progress all the while.
    old: Old,
}

/// Results of that download.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Old {
    mbps: f64,
    /// Time from the first bonded connection to its end; negative if it had ended before.
    outlasted_by_seconds: f64,
    longest_gap_seconds: f64,
}

/// Starts a peer, the `number`th time.
pub(super) fn measure(
    hosts: &Hosts<'_>,
    options: &Options,
    scenario: &Scenario,
    number: u32,
) -> Result<Found, StepError> {
    let retry = Duration::from_secs(options.retry.into());
    let links = hosts.bench.lab().links();
    let _up = hosts.up(Client::PROBING, links, retry)?;
    let (rate, payload) = (scenario.total_rate(Direction::Get), scenario.payload);
    let direct_mbps = download(hosts, payload, rate)?;
    let mut old_connection = open(hosts)?;
    // Longer than it takes to find the peer.
    let order = order(hosts, rate * (retry + MARGIN));
    let client = hosts.bench.lab().client();
    std::thread::scope(|scope| {
        let old = scope.spawn(|| {
            let outcome = client.run(|| meter::transfer(&order, &AtomicU64::new(0)));
            (outcome, Instant::now())
        });
        let mut seen = Watch {
            hosts,
            connections: 0,
        };
        // Each time at another moment between two probes.
        let before = retry * number / options.starts.into();
        let begin = Instant::now();
        while begin.elapsed() < before {
            seen.connect()?;
        }
        let before_seconds = begin.elapsed().as_secs_f64();
        let _peer = hosts.serve()?;
        let bonded = seen.bonded_after(retry + PATIENCE)?;
        let known = Instant::now();
        let (outcome, ended) = old.join().map_err(|_| io::Error::other("no transfer"))?;
        let outcome = outcome?;
        if !outcome.ok {
            return Err(StepError::Corrupted);
        }
        exchange(&mut old_connection)?;
        let outlasted = match ended.checked_duration_since(known) {
            Some(later) => later.as_secs_f64(),
            None => -(known - ended).as_secs_f64(),
        };
        Ok(Found {
            before_seconds,
            bonded_after_seconds: bonded.map(|time| time.as_secs_f64()),
            connections: seen.connections,
            direct_mbps,
            bonded_mbps: download(hosts, payload, rate)?,
            old: Old {
                mbps: outcome.mbps,
                outlasted_by_seconds: outlasted,
                longest_gap_seconds: outcome.worst_gap,
            },
        })
    })
}

/// New connections, one after the other.
struct Watch<'a> {
    hosts: &'a Hosts<'a>,
    connections: u32,
}

impl Watch<'_> {
    /// Makes one that carries data; says whether it is bonded.
    fn connect(&mut self) -> Result<bool, StepError> {
        let _stream = open(self.hosts)?;
        self.connections += 1;
        let bonded = self.hosts.bonded(Client::PROBING)? > 0;
        std::thread::sleep(PAUSE);
        Ok(bonded)
    }

    /// Returns the time from now until the start of the first connection that is bonded.
    fn bonded_after(&mut self, limit: Duration) -> Result<Option<Duration>, StepError> {
        let start = Instant::now();
        loop {
            let begin = start.elapsed();
            if begin > limit {
                return Ok(None);
            }
            if self.connect()? {
                return Ok(Some(begin));
            }
        }
    }
}

/// A connection that has carried data.
fn open(hosts: &Hosts<'_>) -> Result<TcpStream, StepError> {
    let order = order(hosts, BLOCK);
    let client = hosts.bench.lab().client();
    let mut stream = client.run(|| meter::open_echo(&order))?;
    exchange(&mut stream)?;
    Ok(stream)
}

fn exchange(stream: &mut TcpStream) -> io::Result<()> {
    let sent = vec![b'?'; BLOCK.as_u64() as usize];
    stream.write_all(&sent)?;
    let mut back = vec![0; sent.len()];
    stream.read_exact(&mut back)?;
    if back == sent {
        Ok(())
    } else {
        Err(io::Error::other("the answer is not what was asked"))
    }
}

fn download(hosts: &Hosts<'_>, bytes: ByteCount, rate: Rate) -> Result<f64, StepError> {
    let limit = limit_for(bytes, rate, &[], false);
    let outcome = hosts.bench.transfer(&order(hosts, bytes), limit, &[])?;
    Ok(outcome.mbps)
}

fn order(hosts: &Hosts<'_>, bytes: ByteCount) -> Order {
    let socks = Client::PROBING.socks;
    hosts.bench.socks_order(socks, Direction::Get, bytes)
}

/// Judges all starts together, of which `broken` failed.
pub(super) fn verdicts(
    all: &[Found],
    options: &Options,
    scenario: &Scenario,
    broken: usize,
) -> Vec<Verdict> {
    let times = all
        .iter()
        .map(|found| found.bonded_after_seconds.unwrap_or(f64::INFINITY));
    let worst = times.fold(f64::NEG_INFINITY, f64::max);
    let bonded = median(all.iter().map(|found| found.bonded_mbps));
    let rates = scenario.total_rate(Direction::Get).bits_per_second() as f64 / 1e6;
    let of_rates = bonded.unwrap_or(0.0) / (rates * FULL_PACKETS);
    let longest = f64::from(options.retry) + TO_FIND.as_secs_f64();
    vec![
        Verdict::new(
            "peer started: longest until a connection is bonded, s".to_owned(),
            if all.is_empty() { f64::INFINITY } else { worst },
            Asked::AtMost(longest),
        ),
        Verdict::new(
            "peer started: download after that, of the links' rates".to_owned(),
            of_rates,
            Asked::AtLeast(LEAST_OF_RATES),
        ),
        Verdict::new(
            "peer started: times that anything broke".to_owned(),
            broken as f64,
            Asked::AtMost(0.0),
        ),
    ]
}

/// Longest time for finding a peer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two connections.
const PAUSE: Duration = Duration::from_millis(100);
/// Time that the old download goes on beyond the time between two probes.
const MARGIN: Duration = Duration::from_secs(4);
/// Beside the time between two probes: the wait for the next connection, which asks for the probe,
/// the probe, the session, and the connection that uses it, on links that are full.
const TO_FIND: Duration = Duration::from_secs(2);
/// Part of a packet of 1500 bytes that is payload.
const FULL_PACKETS: f64 = 1448.0 / 1500.0;
const LEAST_OF_RATES: f64 = 0.9;
