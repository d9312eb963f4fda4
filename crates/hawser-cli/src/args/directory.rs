//! Flags about directories.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use hawser_config::DirectoryConfig;
use hawser_types::Host;

use super::shared::socket_address;

/// The directory that `hawser serve` runs.
#[derive(Args, Debug)]
pub(crate) struct DirectoryArgs {
    /// Be the SIP registrar and proxy of this domain as well, for hosts that find each other by
    /// name; may be repeated. Needs --directory-users
    #[arg(long, value_name = "DOMAIN")]
    pub(crate) directory: Vec<Host>,
    /// Take SIP over UDP and TCP at this address; may be repeated [default: [::]:5060]
    #[arg(long, value_name = "ADDR:PORT", value_parser = socket_address)]
    pub(crate) directory_listen: Vec<SocketAddr>,
    /// Let the users in this file register, a line NAME:PASSWORD each
    #[arg(long, value_name = "FILE")]
    pub(crate) directory_users: Option<PathBuf>,
}

impl DirectoryArgs {
    /// Puts what the flags say over what the file says.
    pub(crate) fn apply_to(&self, config: &mut DirectoryConfig) {
        if !self.directory.is_empty() {
            config.domains.clone_from(&self.directory);
        }
        if !self.directory_listen.is_empty() {
            config.listen.clone_from(&self.directory_listen);
        }
        if self.directory_users.is_some() {
            config.users_file.clone_from(&self.directory_users);
        }
    }
}
