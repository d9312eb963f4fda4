//! Arguments that several commands have, and how they load and print.

use std::fmt::{Debug, Display};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::ensure;
use clap::{Args, ValueEnum};
use hawser_scenario::{Congestion, Direction, Scenario};
use hawser_sched::chunk::ChunkPolicy;
use hawser_session::{SessionConfig, TransportChoice};
use hawser_sim::bond::BondConfig;
use hawser_sim::network::UdpFate;
use hawser_types::ByteCount;
use serde::Serialize;

#[derive(Debug, Args)]
pub(super) struct BondArguments {
    /// The policy that places bulk chunks
    #[arg(long, default_value_t)]
    scheduler: ChunkPolicy,
    /// One congestion control for all of Hawser's channels, instead of each one's own choice
    #[arg(long, value_name = "CONTROL")]
    congestion: Option<Congestion>,
    /// What chunks go over: TCP channels, an association, or whichever delivers more
    #[arg(long, default_value = "tcp")]
    transport: Carried,
    /// What becomes of UDP: everything passes, nothing, a tenth of each link's rate, the last or
    /// nothing after a minute, or 200 kbit/s after four seconds
    #[arg(long, value_name = "FATE", default_value = "passes")]
    udp: Udp,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Udp {
    Passes,
    Blocked,
    Throttled,
    Slowed,
    Limited,
    Dropped,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Carried {
    Tcp,
    Sctp,
    Auto,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum DirectionChoice {
    Put,
    Get,
    Both,
}

impl Udp {
    pub(super) fn fate(self) -> UdpFate {
        match self {
            Self::Passes => UdpFate::Passes,
            Self::Blocked => UdpFate::Blocked,
            Self::Throttled => UdpFate::Throttled,
            Self::Slowed => UdpFate::Slowed(HINDERED_AFTER),
            Self::Limited => UdpFate::Limited(LIMITED_AFTER),
            Self::Dropped => UdpFate::Dropped(HINDERED_AFTER),
        }
    }
}

impl DirectionChoice {
    pub(super) fn directions(self) -> Vec<Direction> {
        match self {
            Self::Put => vec![Direction::Put],
            Self::Get => vec![Direction::Get],
            Self::Both => vec![Direction::Put, Direction::Get],
        }
    }
}

impl From<Carried> for TransportChoice {
    fn from(carried: Carried) -> Self {
        match carried {
            Carried::Tcp => Self::Tcp,
            Carried::Sctp => Self::Sctp,
            Carried::Auto => Self::Auto,
        }
    }
}

impl BondArguments {
    pub(super) fn config(&self) -> BondConfig {
        BondConfig {
            session: SessionConfig {
                scheduler: self.scheduler,
                ..BondConfig::default().session
            },
            congestion: self.congestion,
            transport: self.transport.into(),
            udp: self.udp.fate(),
        }
    }

    /// As [`Self::config`], with a recorder that loses nothing.
    pub(super) fn recording(&self) -> BondConfig {
        let mut config = self.config();
        config.session.recorder = ByteCount::from_mib(256);
        config
    }
}

pub(super) fn load(path: &Path) -> anyhow::Result<Scenario> {
    Ok(Scenario::load(path, &|file| std::fs::read_to_string(file))?)
}

/// Prints reports as JSON, or as text.
pub(super) fn show(json: bool, reports: &impl Serialize, text: impl Display) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    if json {
        serde_json::to_writer_pretty(&mut out, reports)?;
        writeln!(out)?;
    } else {
        write!(out, "{text}")?;
    }
    Ok(())
}

/// Reports which of these seeds broke the `promise`.
pub(super) fn show_breaches(
    first: u64,
    seeds: u64,
    breaches: &[(u64, impl Debug)],
    promise: &str,
) -> anyhow::Result<()> {
    for (seed, breach) in breaches {
        writeln!(std::io::stderr(), "seed {seed}: {breach:?}")?;
    }
    let failed = breaches.len();
    ensure!(failed == 0, "{failed} of {seeds} seeds failed");
    writeln!(
        std::io::stdout(),
        "{seeds} seeds from {first} on: {promise}"
    )?;
    Ok(())
}

/// Returns the error of a run over the links of a scenario.
pub(super) fn no_association(scenario: &str) -> String {
    format!("no association over the links of {scenario}")
}

/// Time from the beginning of a session to the moment from which UDP is throttled or dropped.
const HINDERED_AFTER: Duration = Duration::from_secs(60);
/// The same for a rate that all links have, as in the lab's matrix of faults.
const LIMITED_AFTER: Duration = Duration::from_secs(4);
