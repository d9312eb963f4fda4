//! Flags and values that several commands have.

use clap::Args;
use hawser_config::IpNet;

/// A command whose output is a table.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct TableArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Parses a network in CIDR notation.
pub(super) fn network(text: &str) -> Result<IpNet, String> {
    let expected = "expected a network such as 192.168.7.0/24 or fd00::/8";
    hawser_config::read_network(text).ok_or_else(|| expected.to_owned())
}

/// Parses the name of an interface.
pub(super) fn link_name(text: &str) -> Result<String, String> {
    let expected = "expected the name of an interface such as wwan0";
    hawser_config::read_link_name(text).ok_or_else(|| expected.to_owned())
}
