//! Flags about servers and clients that have not met before.

use std::net::SocketAddr;

use clap::{Args, value_parser};
use hawser_config::{FrontConfig, FrontPort, UpConfig};
use hawser_net::identity::PublicKey;
use hawser_types::HostName;

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
    /// Refuse connections to a server that was found this way and no longer proves the same key;
    /// otherwise they use one link, as to any server. It does not apply to connections that the
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

/// Names that are held to what their owners vouch for.
#[derive(Args, Debug)]
pub(crate) struct VouchedArgs {
    /// Hold this name to the keys that its owner publishes at https://NAME/.well-known/hawser:
    /// connections to the ports there go over all links to a server with such a key, or are
    /// refused; all are while that file was never fetched. Captured programs are held at the
    /// addresses that name servers tell them for it. May be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) vouched: Vec<HostName>,
}

impl VouchedArgs {
    /// Puts what the flags say over what the file says.
    pub(crate) fn apply_to(&self, config: &mut UpConfig) {
        if !self.vouched.is_empty() {
            config.vouched.clone_from(&self.vouched);
        }
    }
}

/// `hawser voucher`.
#[derive(Args, Debug)]
pub(crate) struct VoucherArgs {
    /// Vouch for these TCP ports of the name [default: those that the configuration fronts]
    #[arg(long, value_name = "PORT,…", value_delimiter = ',')]
    pub(crate) ports: Vec<u16>,
    /// Vouch for this key, too, which the server is going to have or had before; may be repeated
    #[arg(long = "key", value_name = "KEY")]
    pub(crate) keys: Vec<PublicKey>,
    /// Let hosts keep the file for this many days, 1 to 30 [default: 7]
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=30))]
    pub(crate) days: Option<u64>,
    /// Say that the name no longer has Hawser, so that hosts connect to it as to any other
    #[arg(long, conflicts_with_all = ["ports", "keys"])]
    pub(crate) none: bool,
}
