//! Flags about directories.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use hawser_config::{DirectoryConfig, UpConfig};
use hawser_types::{Host, HostNameAt};

use super::shared::socket_address;

/// The directory that `hawser serve` runs.
#[derive(Args, Debug)]
pub(crate) struct DirectoryArgs {
    /// Also be the SIP registrar and proxy of this domain, for hosts that find each other by name;
    /// may be repeated. Needs --directory-users
    #[arg(long, value_name = "DOMAIN")]
    pub(crate) directory: Vec<Host>,
    /// Listen for SIP over UDP and TCP at this address; may be repeated [default: [::]:5060]
    #[arg(long, value_name = "ADDR:PORT", value_parser = socket_address)]
    pub(crate) directory_listen: Vec<SocketAddr>,
    /// File of the users who may register, one line NAME:PASSWORD each
    #[arg(long, value_name = "FILE")]
    pub(crate) directory_users: Option<PathBuf>,
}

impl DirectoryArgs {
    /// Overrides settings of the file with those of the flags.
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

/// The directory that `hawser up` registers with.
#[derive(Args, Debug)]
pub(crate) struct RegistrationArgs {
    /// Register this name, such as alice@example.org, with a directory, so that others find this
    /// host
    #[arg(long, value_name = "USER@DOMAIN")]
    pub(crate) name: Option<HostNameAt>,
    /// Register with this directory, such as sip:example.org or sip:192.0.2.1:5060;transport=tls
    /// [default: that of the name's domain]
    #[arg(long, value_name = "URI")]
    pub(crate) directory: Option<String>,
    /// File with the password of that name, which no other user can read [default: the variable
    /// HAWSER_DIRECTORY_PASSWORD]
    #[arg(long, value_name = "FILE")]
    pub(crate) directory_password_file: Option<PathBuf>,
    /// Let hosts that `hawser peers add` has added reach this TCP port of this host, such as 22;
    /// may be repeated
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) offer: Vec<u16>,
}

impl RegistrationArgs {
    /// Overrides settings of the file with those of the flags.
    pub(crate) fn apply_to(&self, config: &mut UpConfig) {
        if self.name.is_some() {
            config.name.clone_from(&self.name);
        }
        if self.directory.is_some() {
            config.directory.clone_from(&self.directory);
        }
        if let Some(file) = &self.directory_password_file {
            config.directory_password_file = Some(file.clone());
        }
        if !self.offer.is_empty() {
            config.offer.clone_from(&self.offer);
        }
    }
}
