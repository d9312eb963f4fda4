//! The program `hawser-sim`.

mod commands;
mod trace;

use std::fmt::Display;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::{Args, Parser, Subcommand, ValueEnum};
use hawser_scenario::{Congestion, Direction, Scenario};
use hawser_sched::chunk::ChunkPolicy;
use hawser_session::{SessionConfig, TransportChoice};
use hawser_sim::bond::BondConfig;
use hawser_sim::experiment::{self, Options, Singles};
use hawser_sim::objects;
use hawser_sim::table::{Objects, Table};
use hawser_types::{ByteCount, parse_duration};
use serde::Serialize;

/// Sessions over simulated links, in virtual time.
#[derive(Debug, Parser)]
#[command(name = "hawser-sim", version, max_term_width = 79)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Simulate scenarios: TCP on each link alone, then Hawser on all
    Run(RunArguments),
    /// Transfer small objects on a warm session, and over TCP on each link
    Objects(ObjectArguments),
    /// Let links fail and return, under load and at rest
    Failover(commands::FailoverArguments),
    /// Let connections come and go, placed on links one by one or bonded
    Connections(commands::ConnectionArguments),
    /// Share a link with plain TCP
    Fairness(commands::FairnessArguments),
    /// Draw link sets and report the worst breaches of the promise
    Hunt(commands::HuntArguments),
    /// Associations: SCTP that uses every path at once
    Association(commands::AssociationArguments),
    /// Ask a policy again what a recording says that one was asked
    Replay(commands::ReplayArguments),
}

#[derive(Debug, Args)]
struct RunArguments {
    /// Scenario files
    #[arg(required = true)]
    scenarios: Vec<PathBuf>,
    /// Draws what is random, instead of the scenario's seed
    #[arg(long)]
    seed: Option<u64>,
    /// Which way the payload goes; the scenario's choice by default
    #[arg(long)]
    direction: Option<Way>,
    /// Payload of one transfer, instead of the scenario's
    #[arg(long, conflicts_with = "seconds")]
    size: Option<ByteCount>,
    /// As much payload as the links' rates carry in this many seconds
    #[arg(long)]
    seconds: Option<u32>,
    /// Transfers over one session, one after another
    #[arg(long, default_value_t = 2)]
    transfers: usize,
    /// Run an interactive stream beside each transfer: 64 B every 20 ms each way
    #[arg(long)]
    ticks: bool,
    /// Leave out TCP on each link alone
    #[arg(long)]
    no_singles: bool,
    /// Print how the sender and its channels stand, so often, to the error output
    #[arg(long, value_name = "SPAN", value_parser = parse_duration)]
    trace: Option<Duration>,
    /// Write what the sender decided to this file; one scenario, one direction
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    #[command(flatten)]
    bond: BondArguments,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct BondArguments {
    /// The policy that places bulk chunks
    #[arg(long, default_value_t)]
    scheduler: ChunkPolicy,
    /// One congestion control for all of Hawser's channels, instead of each one's own choice
    #[arg(long, value_name = "CONTROL")]
    congestion: Option<Congestion>,
    /// What chunks go over: TCP channels, an association, or whichever delivers more
    #[arg(long, default_value = "tcp")]
    transport: Carried,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Carried {
    Tcp,
    Sctp,
    Auto,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Way {
    Put,
    Get,
    Both,
}

#[derive(Debug, Args)]
struct ObjectArguments {
    /// Scenario files
    #[arg(required = true)]
    scenarios: Vec<PathBuf>,
    /// Sizes of objects
    #[arg(long, value_delimiter = ',', default_value = "20kB,100kB,1MB")]
    sizes: Vec<ByteCount>,
    /// Objects of each size, one after another
    #[arg(long, default_value_t = 30)]
    count: u64,
    /// Which way they go; both by default
    #[arg(long, default_value = "both")]
    direction: Way,
    #[command(flatten)]
    bond: BondArguments,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Run(arguments) => arguments.execute(),
        Command::Objects(arguments) => arguments.execute(),
        Command::Failover(arguments) => arguments.execute(),
        Command::Connections(arguments) => arguments.execute(),
        Command::Fairness(arguments) => arguments.execute(),
        Command::Hunt(arguments) => arguments.execute(),
        Command::Association(arguments) => arguments.execute(),
        Command::Replay(arguments) => arguments.execute(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "hawser-sim: {error:#}");
            ExitCode::FAILURE
        }
    }
}

impl Way {
    fn directions(self) -> Vec<Direction> {
        match self {
            Self::Put => vec![Direction::Put],
            Self::Get => vec![Direction::Get],
            Self::Both => vec![Direction::Put, Direction::Get],
        }
    }
}

fn load(path: &Path) -> anyhow::Result<Scenario> {
    Ok(Scenario::load(path, &|file| std::fs::read_to_string(file))?)
}

/// Prints reports as JSON, or as text.
fn show(json: bool, reports: &impl Serialize, text: impl Display) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    if json {
        serde_json::to_writer_pretty(&mut out, reports)?;
        writeln!(out)?;
    } else {
        write!(out, "{text}")?;
    }
    Ok(())
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let cause = error.downcast_ref::<std::io::Error>();
    cause.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

impl RunArguments {
    fn execute(self) -> anyhow::Result<()> {
        let mut reports = Vec::new();
        for path in &self.scenarios {
            let scenario = load(path)?;
            let directions = match self.direction {
                None => scenario.directions.clone(),
                Some(way) => way.directions(),
            };
            for direction in directions {
                let options = self.options(&scenario, direction);
                let (report, recording) = experiment::record(&scenario, direction, &options);
                reports.push(report);
                if let Some(path) = &self.record {
                    ensure!(
                        reports.len() == 1,
                        "--record is for one run; name one --direction"
                    );
                    std::fs::write(path, recording.to_bytes())
                        .with_context(|| format!("can't write {}", path.display()))?;
                }
            }
        }
        show(self.json, &reports, Table(&reports))
    }

    fn options(&self, scenario: &Scenario, direction: Direction) -> Options {
        let by_time = self.seconds.map(|seconds| {
            let span = Duration::from_secs(seconds.into());
            scenario.total_rate(direction) * span
        });
        Options {
            seed: self.seed.unwrap_or(scenario.seed),
            payload: self.size.or(by_time),
            transfers: self.transfers,
            singles: match self.no_singles {
                true => Singles::None,
                false => Singles::Undisturbed,
            },
            ticks: self.ticks,
            observer: self.trace.map(trace::observer),
            bond: match self.record {
                Some(_) => self.bond.recording(),
                None => self.bond.config(),
            },
        }
    }
}

impl ObjectArguments {
    fn execute(self) -> anyhow::Result<()> {
        let mut reports = Vec::new();
        for path in &self.scenarios {
            let scenario = load(path)?;
            let options = Options::new(scenario.seed, self.bond.config());
            for direction in self.direction.directions() {
                for size in &self.sizes {
                    let report = objects::run(&scenario, direction, *size, self.count, &options);
                    reports.push(report);
                }
            }
        }
        show(self.json, &reports, Objects(&reports))
    }
}

impl BondArguments {
    fn config(&self) -> BondConfig {
        BondConfig {
            session: SessionConfig {
                scheduler: self.scheduler,
                ..BondConfig::default().session
            },
            congestion: self.congestion,
            transport: match self.transport {
                Carried::Tcp => TransportChoice::Tcp,
                Carried::Sctp => TransportChoice::Sctp,
                Carried::Auto => TransportChoice::Auto,
            },
        }
    }

    /// As [`Self::config`], with a recorder that loses nothing.
    fn recording(&self) -> BondConfig {
        let mut config = self.config();
        config.session.recorder = ByteCount::from_mib(256);
        config
    }
}
