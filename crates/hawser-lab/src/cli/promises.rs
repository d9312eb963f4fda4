//! The experiments beside bulk transfers that show what is promised.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use hawser_types::ByteCount;

use super::run::Ways;
use crate::experiment::{Common, Several};
use crate::failover::{self, Load, Trouble};
use crate::scenario::Scenario;
use crate::{fairness, interactive, objects};

#[derive(Debug, clap::Args)]
pub(super) struct FailoverArguments {
    #[command(flatten)]
    several: Several,
    #[command(flatten)]
    common: Common,
    /// How often each case; the links take turns in failing
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Only these troubles
    #[arg(long, value_delimiter = ',')]
    trouble: Vec<Trouble>,
    /// Only beside these loads
    #[arg(long, value_delimiter = ',')]
    load: Vec<Load>,
    /// Seconds before a link fails, without it, and after its return
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=600))]
    part: u64,
    /// Leave MPTCP out
    #[arg(long)]
    only_hawser: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct ObjectsArguments {
    #[command(flatten)]
    several: Several,
    #[command(flatten)]
    common: Common,
    /// Seconds for each size, as long as each kind has its least number by then
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=36_000))]
    seconds: u64,
    /// As many of each kind at least, if that takes no more than five times as long
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    least: u32,
    /// Which sizes
    #[arg(long, value_delimiter = ',', default_value = "20kB,100kB,1MB")]
    sizes: Vec<ByteCount>,
    /// Which way
    #[arg(long, default_value = "both")]
    direction: Ways,
}

#[derive(Debug, clap::Args)]
pub(super) struct InteractiveArguments {
    #[command(flatten)]
    several: Several,
    #[command(flatten)]
    common: Common,
    /// Seconds that bulk takes over all links
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(3..=3600))]
    seconds: u64,
    /// How often each phase
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Leave plain TCP and MPTCP out
    #[arg(long)]
    only_hawser: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct FairnessArguments {
    #[command(flatten)]
    several: Several,
    #[command(flatten)]
    common: Common,
    /// How often each pair
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Which way
    #[arg(long, default_value = "both")]
    direction: Ways,
    /// Seconds that plain TCP takes at half of the link's rate
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(4..=3600))]
    seconds: u64,
    /// The link that both use
    #[arg(long, default_value_t = 1)]
    link: usize,
    /// Leave pairs of plain TCP out
    #[arg(long)]
    only_hawser: bool,
}

impl ObjectsArguments {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        let options = objects::Options {
            sizes: self.sizes,
            directions: self.direction.directions(),
            span: Duration::from_secs(self.seconds),
            least: self.least,
            hawser: self.common.programs()?,
        };
        let measure = |scenario: &Scenario, folder: &Path| objects::run(scenario, &options, folder);
        self.common.measure_all(&self.several, measure)
    }
}

impl InteractiveArguments {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        let options = interactive::Options {
            span: Duration::from_secs(self.seconds),
            repeat: self.repeat,
            hawser: self.common.programs()?,
            only_hawser: self.only_hawser,
        };
        let measure =
            |scenario: &Scenario, folder: &Path| interactive::run(scenario, &options, folder);
        self.common.measure_all(&self.several, measure)
    }
}

impl FairnessArguments {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        let options = fairness::Options {
            repeat: self.repeat,
            directions: self.direction.directions(),
            span: Duration::from_secs(self.seconds),
            link: self.link,
            hawser: self.common.programs()?,
            only_hawser: self.only_hawser,
        };
        let measure =
            |scenario: &Scenario, folder: &Path| fairness::run(scenario, &options, folder);
        self.common.measure_all(&self.several, measure)
    }
}

impl FailoverArguments {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        let options = failover::Options {
            repeat: self.repeat,
            troubles: all_when_empty(self.trouble, &Trouble::ALL),
            loads: all_when_empty(self.load, &Load::ALL),
            part: Duration::from_secs(self.part),
            hawser: self.common.programs()?,
            only_hawser: self.only_hawser,
        };
        let measure =
            |scenario: &Scenario, folder: &Path| failover::run(scenario, &options, folder);
        self.common.measure_all(&self.several, measure)
    }
}

fn all_when_empty<T: Clone>(given: Vec<T>, all: &[T]) -> Vec<T> {
    if given.is_empty() {
        all.to_vec()
    } else {
        given
    }
}
