//! Options of `hawser-lab watchers`.

use clap::ValueEnum;
use serde::Serialize;

use crate::experiment::Directions;
use crate::scenario::Scenario;

/// Options of the experiment.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Only these who look
    #[arg(long, value_delimiter = ',', value_enum)]
    pub(super) crowds: Vec<Crowd>,
    /// Number of pairs of transfers, one with them and one without
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(super) rounds: u16,
    /// About how long a transfer takes
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=60))]
    pub(super) seconds: u8,
    /// Direction of the bytes
    #[arg(long, default_value = "both")]
    pub(super) direction: Directions,
    /// Feeds that are asked for and not read
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(super) feeds: u16,
    /// Requests of each kind in a flood, a second
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub(super) rate: u16,
}

/// Kinds of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Crowd {
    /// Many who ask for a feed and never read it
    Stalled,
    /// One who reads all, and asks as the page does
    Page,
    /// Wrong tokens, names of other hosts and bodies of 10 MB
    Flood,
}

/// Links of the lab.
#[derive(Debug)]
pub(crate) enum Links {
    /// The links of a scenario.
    Of(Box<Scenario>),
    /// Virtual cables without limits.
    Unshaped,
}

impl Links {
    /// Returns the name in reports.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Of(scenario) => &scenario.name,
            Self::Unshaped => "cables",
        }
    }
}

impl Crowd {
    /// As it is asked for on the command line.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Stalled => "stalled",
            Self::Page => "page",
            Self::Flood => "flood",
        }
    }
}
