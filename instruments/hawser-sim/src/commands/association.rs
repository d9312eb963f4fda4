use std::num::{NonZeroU64, NonZeroUsize};
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::{Args, Subcommand, ValueEnum};
use hawser_channels::association::below_seal;
use hawser_scenario::{Direction, Scenario};
use hawser_sched::chunk::ChunkPolicy;
use hawser_sctp::{AssociationConfig, Control};
use hawser_sim::association::chaos::{self, Breach};
use hawser_sim::association::compare;
use hawser_sim::association::delay::{self, Load};
use hawser_sim::association::paper::{self, Setup, Table, Variant};
use hawser_sim::bond::BondConfig;
use hawser_sim::experiment::{Options, Singles};
use hawser_sim::table::{Comparisons, DelayTable};
use hawser_types::parse_duration;

use super::arguments::{DirectionChoice, load, no_association, show, show_breaches};

#[derive(Debug, Args)]
pub(crate) struct AssociationArguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Loss, reordering, duplicates, outages and other addresses, drawn from seeds: nothing may be
    /// lost, doubled, out of order or stuck
    Chaos {
        /// How many seeds
        #[arg(long, default_value_t = 1000)]
        seeds: u64,
        /// The first of them
        #[arg(long, default_value_t = 0)]
        first: u64,
    },
    /// The paper's tables 3 and 4: by its algorithm alone, with losses told for each path, and by
    /// Hawser's choices
    Paper {
        /// How long a transfer would take if all links were used whole
        #[arg(long, value_name = "SPAN", default_value = "20s", value_parser = parse_duration)]
        span: Duration,
        /// Draws what is random
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// θ of the paper's selection: slower links than so many times the quickest are not used
        #[arg(long, default_value_t = 4.0)]
        theta: f64,
        /// How many missing reports make a chunk lost, for the paper's algorithm alone
        #[arg(long, default_value_t = 4)]
        reports: u32,
        /// Print the report as JSON
        #[arg(long)]
        json: bool,
    },
    /// Scenarios over an association, beside a session over TCP and TCP on each link
    Run(RunArguments),
    /// Small messages of an idle stream beside busy ones, over associations and over sessions
    Delay(DelayArguments),
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
    direction: Option<DirectionChoice>,
    /// As much payload as the links' rates carry in this many seconds, instead of the scenario's
    #[arg(long)]
    seconds: Option<u32>,
    /// Leave out TCP on each link alone
    #[arg(long)]
    no_singles: bool,
    #[command(flatten)]
    config: ConfigArguments,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct DelayArguments {
    /// Scenario files; what happens in them is left out
    #[arg(required = true)]
    scenarios: Vec<PathBuf>,
    /// How many streams are busy
    #[arg(long, default_value_t = 99)]
    busy: u16,
    /// How long messages are sent, ten in a second
    #[arg(long, value_name = "SPAN", default_value = "20s", value_parser = parse_duration)]
    span: Duration,
    /// Runs of each, with seeds from 1
    #[arg(long, default_value = "5")]
    seeds: NonZeroU64,
    #[command(flatten)]
    config: ConfigArguments,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// How the association is set up; Hawser's choices by default.
#[derive(Debug, Args)]
struct ConfigArguments {
    /// The policy that places chunks, in associations
    #[arg(long)]
    scheduler: Option<ChunkPolicy>,
    /// How each path's window grows
    #[arg(long)]
    control: Option<Growth>,
    /// The paper's choices
    #[arg(long)]
    paper: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Growth {
    Reno,
    Cubic,
    Bbr,
}

impl AssociationArguments {
    pub(crate) fn execute(self) -> anyhow::Result<()> {
        match self.what {
            What::Chaos { seeds, first } => play(first, seeds),
            What::Paper {
                span,
                seed,
                theta,
                reports,
                json,
            } => {
                let setup = Setup {
                    span,
                    seed,
                    theta,
                    reports,
                };
                let reports = paper::run_all(&Variant::ALL, &setup);
                let reports = reports.context("no association came to be")?;
                show(json, &reports, Table(&reports))
            }
            What::Run(arguments) => arguments.execute(),
            What::Delay(arguments) => arguments.execute(),
        }
    }
}

/// Plays seeds, on as many threads as there are processors.
fn play(first: u64, seeds: u64) -> anyhow::Result<()> {
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let breaches: Vec<(u64, Breach)> = std::thread::scope(|scope| {
        let share = |thread: usize| {
            let seeds = (first..first + seeds).skip(thread).step_by(threads);
            let breach = |seed| Some((seed, chaos::play(seed).err()?));
            scope.spawn(move || seeds.filter_map(breach).collect::<Vec<_>>())
        };
        let shares: Vec<_> = (0..threads).map(share).collect();
        let ended = shares.into_iter();
        // A panic there is one here.
        ended
            .flat_map(|share| share.join().unwrap_or_else(|panic| resume_unwind(panic)))
            .collect()
    });
    let promise = "nothing lost, doubled, out of order or stuck";
    show_breaches(first, seeds, &breaches, promise)
}

impl RunArguments {
    fn execute(self) -> anyhow::Result<()> {
        let config = self.config.config();
        let mut reports = Vec::new();
        for path in &self.scenarios {
            let scenario = load(path)?;
            ensure!(
                scenario.server.is_none(),
                "{}: what all links share is not modelled for associations",
                path.display()
            );
            let directions = match self.direction {
                None => scenario.directions.clone(),
                Some(way) => way.directions(),
            };
            for direction in directions {
                let options = self.options(&scenario, direction);
                let report = compare::run(&scenario, direction, &config, &options);
                reports.push(report.with_context(|| no_association(&scenario.name))?);
            }
        }
        show(self.json, &reports, Comparisons(&reports))
    }

    fn options(&self, scenario: &Scenario, direction: Direction) -> Options {
        let seed = self.seed.unwrap_or(scenario.seed);
        let by_time = self.seconds.map(|seconds| {
            let span = Duration::from_secs(seconds.into());
            scenario.total_rate(direction) * span
        });
        Options {
            payload: by_time,
            transfers: 2,
            singles: if self.no_singles {
                Singles::None
            } else {
                Singles::Undisturbed
            },
            ..Options::new(seed, BondConfig::default())
        }
    }
}

impl DelayArguments {
    fn execute(self) -> anyhow::Result<()> {
        let config = self.config.config();
        ensure!(
            self.busy < config.outbound_streams,
            "an association has {} streams",
            config.outbound_streams
        );
        let load_of = Load {
            busy: self.busy,
            span: self.span,
        };
        let mut reports = Vec::new();
        for path in &self.scenarios {
            let mut scenario = load(path)?;
            scenario.events.clear();
            let (bond, seeds) = (BondConfig::default(), self.seeds.get());
            let report = delay::run(&scenario, &load_of, &config, &bond, seeds);
            reports.push(report.with_context(|| no_association(&scenario.name))?);
        }
        show(self.json, &reports, DelayTable(&reports))
    }
}

impl ConfigArguments {
    fn config(&self) -> AssociationConfig {
        let mut config = if self.paper {
            AssociationConfig::paper()
        } else {
            AssociationConfig::default()
        };
        config.policy = self.scheduler.unwrap_or(config.policy);
        config.control = self
            .control
            .map_or(config.control, |control| match control {
                Growth::Reno => Control::Reno,
                Growth::Cubic => Control::Cubic,
                Growth::Bbr => Control::Bbr,
            });
        below_seal(config)
    }
}
