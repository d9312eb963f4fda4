//! Options of `hawser-lab peer`.

use std::path::PathBuf;

use hawser_types::ByteCount;

/// Options of the experiment.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The scenario file
    #[arg(default_value = "scenarios/wifi-lte.toml")]
    pub(crate) scenario: PathBuf,
    /// Rounds of connections in a row to hosts without Hawser, with probes and without
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u8).range(1..))]
    pub(super) rounds: u8,
    /// Number of connections in a row
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u8).range(1..=80))]
    pub(super) connections: u8,
    /// Starts of a peer; 0 leaves that out
    #[arg(long, default_value_t = 5)]
    pub(super) starts: u8,
    /// Seconds for which a host without a peer is not probed again
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u8).range(1..))]
    pub(super) retry: u8,
}

/// Bytes that a connection sends first, and gets back.
pub(super) const BLOCK: ByteCount = ByteCount::new(100);
