//! Options of `hawser-lab fairness`.

use crate::experiment::Directions;

/// Options of the experiment.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Repetitions of each pair
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) repeat: u32,
    /// Direction of the bytes
    #[arg(long, default_value = "both")]
    pub(super) direction: Directions,
    /// Seconds that plain TCP takes at half of the link's rate
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(4..=3600))]
    pub(super) seconds: u64,
    /// The link that both use
    #[arg(long, default_value_t = 1)]
    pub(super) link: usize,
    /// Leave pairs of plain TCP out
    #[arg(long)]
    pub(super) only_hawser: bool,
}
