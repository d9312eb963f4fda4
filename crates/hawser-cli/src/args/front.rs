//! Flags about servers and clients that have not met before.

use std::net::SocketAddr;

use clap::Args;
use hawser_config::{FrontConfig, FrontPort, UpConfig};

use super::shared::socket_address;

/// The services that `hawser serve` has for hosts that have not enrolled.
#[derive(Args, Debug)]
pub(crate) struct FrontArgs {
    /// Let hosts that have not enrolled reach these TCP ports of this machine over all links, such
    /// as 443,22; services see their addresses. That needs root, or CAP_NET_ADMIN, or a service
    /// that takes the PROXY protocol at another port: 443:proxy=8443
    #[arg(long, value_name = "PORT[:proxy[=PORT]],…", value_delimiter = ',')]
    pub(crate) front: Vec<FrontPort>,
    /// Listen for such hosts at this address [default: [::]:745]
    #[arg(long, value_name = "ADDR:PORT", value_parser = socket_address)]
    pub(crate) front_listen: Option<SocketAddr>,
}

impl FrontArgs {
    /// Puts what the flags say over what the file says.
    pub(crate) fn apply_to(&self, config: &mut FrontConfig) {
        if !self.front.is_empty() {
            config.ports.clone_from(&self.front);
        }
        config.listen = self.front_listen.unwrap_or(config.listen);
    }
}

/// How `hawser up` goes about servers that it has not enrolled with.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct DiscoveryArgs {
    /// Look for Hawser on servers that this machine has not enrolled with, and reach those over all
    /// links from the second connection on. Every SYN then says that this machine has Hawser and
    /// how many links, to each server and to everybody on the way
    #[arg(long)]
    pub(crate) discover: bool,
    /// Refuse connections to a server that was found so and does not prove the same key any more;
    /// otherwise they go over one link, as to any server. It does not hold for connections that the
    /// kernel places for captured programs
    #[arg(long, requires = "discover")]
    pub(crate) require_bonded: bool,
}

impl DiscoveryArgs {
    /// Puts what the flags say over what the file says.
    pub(crate) fn apply_to(self, config: &mut UpConfig) {
        config.discover |= self.discover;
        config.require_bonded |= self.require_bonded;
    }
}
