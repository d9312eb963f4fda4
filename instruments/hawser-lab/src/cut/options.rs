//! Options of `hawser-lab cut`.

use std::path::PathBuf;

use clap::ValueEnum;
use hawser_sched::connection::ConnectionPolicy;
use serde::Serialize;

use crate::scenario::Action;

/// Options of the experiment.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The scenario file
    #[arg(default_value = "scenarios/wifi-lte.toml")]
    pub(crate) scenario: PathBuf,
    /// Only these ways
    #[arg(long, value_delimiter = ',', value_enum)]
    pub(super) ways: Vec<EntryPoint>,
    /// Only these kinds of loss
    #[arg(long, value_delimiter = ',', value_enum)]
    pub(super) cuts: Vec<Cut>,
    /// Connections that are open all the time
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=2000))]
    pub(super) open: u32,
    /// New connections a second
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=500))]
    pub(super) rate: u32,
    /// Seconds of new connections before the loss
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(2..=60))]
    pub(super) lead: u32,
    /// Seconds of new connections after it
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..=60))]
    pub(super) after: u32,
    /// Link that is lost; link 1 has the default route
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..))]
    pub(super) link: u8,
    /// The policy that places connections
    #[arg(long, default_value_t = ConnectionPolicy::RoundRobin)]
    pub(super) scheduler: ConnectionPolicy,
    /// Repetitions
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(super) repeat: u32,
}

/// Ways of connections into Hawser.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum EntryPoint {
    /// At the port of `hawser up`.
    Port,
    /// By the library that `hawser run` loads.
    Shim,
    /// By the program in the kernel.
    Kernel,
}

/// Kinds of loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Cut {
    /// It loses its carrier.
    Carrier,
    /// It keeps its carrier, and carries nothing.
    Silent,
}

impl Cut {
    pub(super) const fn action(self) -> Action {
        match self {
            Self::Carrier => Action::CarrierDown,
            Self::Silent => Action::BlackHole,
        }
    }
}

/// As it is asked for on the command line.
pub(super) fn name(value: impl ValueEnum) -> String {
    let value = value.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}
