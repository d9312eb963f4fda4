//! Peers among the destinations of connection mode: what looking for them costs where there are
//! none, and what happens when one appears.

mod found;
mod hosts;
mod legacy;
mod port;
mod table;

use std::path::{Path, PathBuf};

use hawser_types::ByteCount;
use serde::Serialize;

use self::found::Found;
use self::hosts::Hosts;
use self::legacy::Legacy;
use crate::experiment::{Findings, Head};
use crate::measure::{Bench, Programs};
use crate::scenario::Scenario;
use crate::topology::Lab;
use crate::verdict::Verdict;

/// What to do.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The scenario file
    #[arg(default_value = "scenarios/wifi-lte.toml")]
    pub(crate) scenario: PathBuf,
    /// How often connections are made in a row to hosts without Hawser, with probes and without
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u8).range(1..))]
    rounds: u8,
    /// How many connections in a row
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u8).range(1..=80))]
    connections: u8,
    /// How often a peer is started; 0 leaves that out
    #[arg(long, default_value_t = 5)]
    starts: u8,
    /// How long a host without a peer is left alone then, in seconds
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u8).range(1..))]
    retry: u8,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct PeerReport {
    #[serde(flatten)]
    head: Head,
    legacy: Vec<Legacy>,
    /// How long a host without a peer is left alone while peers are started.
    retry_seconds: u8,
    found: Vec<Found>,
    failures: Vec<String>,
    verdicts: Vec<Verdict>,
}

/// Measures both, with logs in `folder`.
pub(crate) fn run(
    scenario: &Scenario,
    options: &Options,
    programs: &Programs,
    folder: &Path,
) -> anyhow::Result<PeerReport> {
    let bench = Bench::new(Lab::shaped(scenario)?, folder)?;
    let hosts = Hosts {
        bench: &bench,
        programs,
    };
    hosts.enrol()?;
    let legacy = legacy::measure(&hosts, options)?;
    let mut verdicts: Vec<_> = legacy.iter().flat_map(Legacy::verdicts).collect();
    let (mut found, mut failures) = (Vec::new(), Vec::new());
    for number in 0..u32::from(options.starts) {
        match found::measure(&hosts, options, scenario, number) {
            Ok(one) => found.push(one),
            Err(error) => failures.push(format!("start {}: {error}", number + 1)),
        }
    }
    if options.starts > 0 {
        verdicts.extend(found::verdicts(&found, options, scenario, failures.len()));
    }
    bench.check_emulator()?;
    Ok(PeerReport {
        head: Head::new("peer", &scenario.name),
        legacy,
        retry_seconds: options.retry,
        found,
        failures,
        verdicts,
    })
}

impl Findings for PeerReport {
    fn head(&self) -> &Head {
        &self.head
    }

    fn render(&self) -> String {
        table::render(self)
    }

    fn failures(&self) -> usize {
        self.failures.len()
    }

    fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }
}

/// What a connection sends first, and gets back.
const BLOCK: ByteCount = ByteCount::new(100);
