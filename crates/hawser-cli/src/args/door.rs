//! Flags for the addresses of a gateway or a receiver of files.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use hawser_config::{HostPort, ServeConfig};

use super::shared::socket_address;

/// Addresses at which a gateway or a receiver of files listens, and those in its invites.
#[derive(Args, Debug)]
pub(crate) struct DoorArgs {
    /// Listen at this address [default: [::]:7443]
    #[arg(long, value_name = "ADDR:PORT", value_parser = socket_address)]
    pub(crate) listen: Option<SocketAddr>,
    /// Address at which clients reach this machine, for invites; may be repeated [default: the
    /// address in --listen, or this machine's addresses]
    #[arg(long, value_name = "HOST[:PORT]")]
    pub(crate) advertise: Vec<HostPort>,
    /// Also write the invite to this file, readable only by its owner
    #[arg(long, value_name = "F")]
    pub(crate) invite_file: Option<PathBuf>,
    /// Accept clients' data over TCP only, and open no UDP port
    #[arg(long)]
    pub(crate) no_udp: bool,
}

impl DoorArgs {
    /// Overrides settings of the file with those of the flags.
    pub(crate) fn apply_to(&self, config: &mut ServeConfig) {
        if let Some(listen) = self.listen {
            config.listen = listen;
        }
        if !self.advertise.is_empty() {
            config.advertise.clone_from(&self.advertise);
        }
        config.udp &= !self.no_udp;
    }
}
