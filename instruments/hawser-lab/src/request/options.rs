//! Options of `hawser-lab request`.

use std::path::PathBuf;

use crate::meter;

/// Options of the experiment.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The scenario file
    #[arg(default_value = "scenarios/lossy-both.toml")]
    pub(crate) scenario: PathBuf,
    /// Number of requests, one after another
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) count: u32,
    /// Repetitions of each phase, each with other random numbers
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) repeat: u32,
    /// Bytes of a request and of its answer
    #[arg(
        long,
        default_value_t = 100,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(meter::MAX_ECHO))
    )]
    pub(crate) size: u32,
    /// Leave plain TCP out
    #[arg(long)]
    pub(crate) only_hawser: bool,
}
