//! What is asked of `hawser-lab peer`.

use std::path::PathBuf;

use hawser_types::ByteCount;

/// What to do.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The scenario file
    #[arg(default_value = "scenarios/wifi-lte.toml")]
    pub(crate) scenario: PathBuf,
    /// How often connections are made in a row to hosts without Hawser, with probes and without
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u8).range(1..))]
    pub(super) rounds: u8,
    /// How many connections in a row
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u8).range(1..=80))]
    pub(super) connections: u8,
    /// How often a peer is started; 0 leaves that out
    #[arg(long, default_value_t = 5)]
    pub(super) starts: u8,
    /// How long a host without a peer is left alone then, in seconds
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u8).range(1..))]
    pub(super) retry: u8,
}

/// What a connection sends first, and gets back.
pub(super) const BLOCK: ByteCount = ByteCount::new(100);
