//! Flags about servers and clients that have not enrolled with each other.

use std::net::SocketAddr;

use clap::{Args, value_parser};
use hawser_config::{FrontConfig, FrontPort, UpConfig};
use hawser_keys::identity::PublicKey;
use hawser_types::HostName;

use super::shared::socket_address;

/// The services that `hawser serve` has for hosts that have not enrolled.
#[derive(Args, Debug)]
pub(crate) struct FrontArgs {
    /// Let hosts that have not enrolled reach these TCP ports of this machine, such as 443,22, over
    /// all links. Services see the hosts' addresses; this needs root, CAP_NET_ADMIN, or a service
    /// that accepts the PROXY protocol at another port: 443:proxy=8443
    #[arg(long, value_name = "PORT[:proxy[=PORT]],…", value_delimiter = ',')]
    pub(crate) front: Vec<FrontPort>,
    /// Listen for hosts that have not enrolled at this address [default: [::]:745]
    #[arg(long, value_name = "ADDR:PORT", value_parser = socket_address)]
    pub(crate) front_listen: Option<SocketAddr>,
}

impl FrontArgs {
    /// Overrides settings of the file with those of the flags.
    pub(crate) fn apply_to(&self, config: &mut FrontConfig) {
        if !self.front.is_empty() {
            config.ports.clone_from(&self.front);
        }
        config.listen = self.front_listen.unwrap_or(config.listen);
    }
}

/// How `hawser up` treats servers that this machine has not enrolled with.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct DiscoveryArgs {
    /// Find servers that run Hawser although this machine has not enrolled with them, and reach
    /// them over all links from the second connection on. Every SYN then tells each server, and
    /// everyone on the way, that this machine has Hawser and how many links
    #[arg(long)]
    pub(crate) discover: bool,
    /// Refuse connections to a server that --discover has found and that no longer proves the same
    /// key, instead of using one link. Does not apply to captured connections that the kernel
    /// assigns to a link
    #[arg(long, requires = "discover")]
    pub(crate) require_bonded: bool,
}

impl DiscoveryArgs {
    /// Overrides settings of the file with those of the flags.
    pub(crate) fn apply_to(self, config: &mut UpConfig) {
        config.discover |= self.discover;
        config.require_bonded |= self.require_bonded;
    }
}

/// Names whose servers must have a key that the name's owner vouches for.
#[derive(Args, Debug)]
pub(crate) struct VouchedArgs {
    /// Connect to this name only over all links, and only to a server with a key that the name's
    /// owner publishes at https://NAME/.well-known/hawser; refuse all other connections to the
    /// ports that this file names, and every connection until the file was fetched once. For
    /// captured programs, this applies to the addresses that name servers give for the name. May be
    /// repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) vouched: Vec<HostName>,
}

impl VouchedArgs {
    /// Overrides settings of the file with those of the flags.
    pub(crate) fn apply_to(&self, config: &mut UpConfig) {
        if !self.vouched.is_empty() {
            config.vouched.clone_from(&self.vouched);
        }
    }
}

/// `hawser voucher`.
#[derive(Args, Debug)]
pub(crate) struct VoucherArgs {
    /// Vouch for these TCP ports of the name [default: those of `front` in the configuration]
    #[arg(long, value_name = "PORT,…", value_delimiter = ',')]
    pub(crate) ports: Vec<u16>,
    /// Also vouch for this key, a next or an earlier one of the server; may be repeated
    #[arg(long = "key", value_name = "KEY")]
    pub(crate) keys: Vec<PublicKey>,
    /// Let hosts keep the file for this many days, 1 to 30 [default: 7]
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=30))]
    pub(crate) days: Option<u64>,
    /// Declare that the name no longer has Hawser, so that hosts connect as to any other server
    #[arg(long, conflicts_with_all = ["ports", "keys"])]
    pub(crate) none: bool,
}
