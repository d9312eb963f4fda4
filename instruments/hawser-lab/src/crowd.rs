//! Many clients at one gateway, over virtual cables without limits: cost for the gateway, and
//! fairness between the clients.

use std::path::Path;
use std::time::Duration;

use anyhow::bail;
use hawser::Encryption;
use hawser_types::ByteCount;
use serde::Serialize;

use crate::cpu;
use crate::experiment::{Common, Directions, Findings, Head, begin, named};
use crate::measure::{Bench, StepError};
use crate::meter::{CrowdOrder, Embedding};
use crate::scenario::Direction;
use crate::statistics::median;
use crate::text_table::aligned;
use crate::topology::Lab;

/// Options of the measurement.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CrowdOptions {
    #[command(flatten)]
    common: Common,
    /// Number of clients, each with a session of its own
    #[arg(long, default_value_t = 200)]
    clients: u32,
    /// Bytes of each client's transfer
    #[arg(long, default_value = "10MB")]
    size: ByteCount,
    /// Repetitions of each transfer
    #[arg(long, default_value_t = 3)]
    repeat: u32,
    /// Direction of the bytes
    #[arg(long, default_value = "both")]
    direction: Directions,
}

/// The transfers of all clients in one direction.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Row {
    direction: Direction,
    /// Median goodput of all clients together, Gbit/s.
    gbps: Option<f64>,
    /// Median processor seconds per 10^9 bytes of payload: of the gateway, and of all clients.
    gateway_per_gigabyte: Option<f64>,
    clients_per_gigabyte: Option<f64>,
    /// Lowest of Jain's indices over the clients' rates: 1 where all are served alike.
    jain: Option<f64>,
    /// Median of the seconds until every session stood.
    connect_seconds: Option<f64>,
    /// Memory of the gateway after the last transfer, in bytes.
    gateway_memory: u64,
    /// Goodput of each repetition in Gbit/s.
    samples: Vec<f64>,
    failures: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct CrowdReport {
    #[serde(flatten)]
    head: Head,
    clients: u32,
    payload: u64,
    repeat: u32,
    rows: Vec<Row>,
}

/// One repetition.
#[derive(Debug)]
struct Sample {
    gbps: f64,
    gateway: f64,
    clients: f64,
    jain: f64,
    connect: f64,
    memory: u64,
}

impl CrowdOptions {
    pub(crate) fn execute(self) -> anyhow::Result<std::process::ExitCode> {
        if !(1..=MAX_CLIENTS).contains(&self.clients) {
            bail!(
                "--clients is {}, allowed are 1 to {MAX_CLIENTS}",
                self.clients
            );
        }
        begin()?;
        let place = self.common.place("crowd")?;
        let report = self.measure(place.path())?;
        self.common.finish(&report)
    }

    fn measure(&self, folder: &Path) -> anyhow::Result<CrowdReport> {
        let bench = Bench::new(Lab::unshaped(LINKS)?, folder)?;
        let mut rows = Vec::new();
        for direction in self.direction.directions() {
            let (mut samples, mut failures) = (Vec::new(), Vec::new());
            for number in 0..self.repeat.max(1) {
                let folder = folder.join(format!("{}-{number}", direction.name()));
                match self.sample(&bench, direction, &folder) {
                    Ok(sample) => {
                        eprintln!("  {} {:>7.2} Gbit/s", direction.name(), sample.gbps);
                        samples.push(sample);
                    }
                    Err(error) => failures.push(error.to_string()),
                }
            }
            rows.push(Row::new(direction, &samples, failures));
        }
        Ok(CrowdReport {
            head: Head::new("crowd", "cables"),
            clients: self.clients,
            payload: self.size.as_u64(),
            repeat: self.repeat,
            rows,
        })
    }

    /// Starts a gateway, lets all clients connect, and measures their transfers.
    fn sample(
        &self,
        bench: &Bench,
        direction: Direction,
        folder: &Path,
    ) -> Result<Sample, StepError> {
        let how = Embedding {
            encryption: Encryption::Default,
            transport: self.common.transport(),
        };
        let server = bench.serve_library(folder, self.clients, how)?;
        let gateway = server.program.id();
        let links = bench.lab().links().iter();
        let order = CrowdOrder {
            direction,
            bytes: self.size.as_u64(),
            invites: server.invite.clone(),
            links: links.map(|link| link.interface.clone()).collect(),
            how,
        };
        let outcome = bench.crowd_transfer(&order, LIMIT)?;
        let gigabytes = outcome.bytes as f64 / 1e9;
        let used = cpu::of(gateway)?.as_secs_f64();
        Ok(Sample {
            gbps: outcome.bytes as f64 * 8.0 / outcome.seconds / 1e9,
            gateway: used / gigabytes,
            clients: outcome.cpu_seconds / gigabytes,
            jain: jain(outcome.each.iter().map(|seconds| 1.0 / seconds)),
            connect: outcome.connect_seconds,
            memory: cpu::resident(gateway)?,
        })
    }
}

impl Row {
    fn new(direction: Direction, samples: &[Sample], failures: Vec<String>) -> Self {
        let of = |figure: fn(&Sample) -> f64| median(samples.iter().map(figure));
        Self {
            direction,
            gbps: of(|sample| sample.gbps),
            gateway_per_gigabyte: of(|sample| sample.gateway),
            clients_per_gigabyte: of(|sample| sample.clients),
            jain: samples
                .iter()
                .map(|sample| sample.jain)
                .min_by(f64::total_cmp),
            connect_seconds: of(|sample| sample.connect),
            gateway_memory: samples.last().map_or(0, |sample| sample.memory),
            samples: samples.iter().map(|sample| sample.gbps).collect(),
            failures,
        }
    }

    fn line(&self) -> Vec<String> {
        let show = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{v:.2}"));
        vec![
            self.direction.name().to_owned(),
            show(self.gbps),
            show(self.gateway_per_gigabyte),
            show(self.clients_per_gigabyte),
            show(self.jain),
            show(self.connect_seconds),
            format!("{:.0}", self.gateway_memory as f64 / 1e6),
        ]
    }
}

impl Findings for CrowdReport {
    fn head(&self) -> &Head {
        &self.head
    }

    fn table(&self) -> String {
        let mut lines = vec![HEADER.map(str::to_owned).to_vec()];
        lines.extend(self.rows.iter().map(Row::line));
        let mut text = self.head.title(&format!(
            "{} clients at one gateway, {} each at the same time over {LINKS} virtual cables, \
             median of {}",
            self.clients,
            ByteCount::new(self.payload),
            self.repeat
        ));
        text.push_str(&aligned(&lines));
        text
    }

    fn failures(&self) -> Vec<String> {
        let of = |row: &Row| named(row.direction.name(), &row.failures);
        self.rows.iter().flat_map(of).collect()
    }
}

/// Jain's fairness index of some rates.
pub(crate) fn jain(rates: impl Iterator<Item = f64> + Clone) -> f64 {
    let count = rates.clone().count() as f64;
    let sum: f64 = rates.clone().sum();
    let squares: f64 = rates.map(|rate| rate * rate).sum();
    sum * sum / (count * squares)
}

const HEADER: [&str; 7] = [
    "",
    "Gbit/s",
    "gateway s/GB",
    "clients s/GB",
    "Jain",
    "connect s",
    "gateway MB",
];
const LINKS: usize = 2;
/// Sessions that a gateway takes by default.
const MAX_CLIENTS: u32 = 1024;
const LIMIT: Duration = Duration::from_secs(300);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jains_index_is_one_for_equals_and_one_over_n_for_a_winner() {
        assert_eq!(jain([2.0; 4].into_iter()), 1.0);
        assert_eq!(jain([8.0, 0.0, 0.0, 0.0].into_iter()), 0.25);
    }
}
