//! Flags and values that several commands have.

use std::net::SocketAddr;

use clap::Args;
use hawser_config::IpNet;

/// Flags of a command whose output is a table.
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

/// Parses an address and a port.
pub(super) fn socket_address(text: &str) -> Result<SocketAddr, String> {
    let expected = "expected an address and a port such as 127.0.0.1:1080 or [::]:7443";
    text.parse().map_err(|_| expected.to_owned())
}
