//! `hawser peers`.

use clap::{Args, Subcommand};
use hawser_config::GatewaySource;
use hawser_keys::identity::PublicKey;
use hawser_types::HostNameAt;

use super::shared::TableArgs;

/// `hawser peers`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct PeersArgs {
    /// Action; without one, the command lists the hosts and the clients.
    #[command(subcommand)]
    pub(crate) action: Option<PeersAction>,
    /// Format of the table.
    #[command(flatten)]
    pub(crate) table: TableArgs,
}

impl PeersArgs {
    /// Returns the invite that contains the key to add, if there is one.
    pub(crate) fn invite_mut(&mut self) -> Option<&mut GatewaySource> {
        match &mut self.action {
            Some(PeersAction::Add {
                key: Some(KeySource::Invite(invite)),
                ..
            }) => Some(invite),
            _ => None,
        }
    }
}

/// Actions on hosts that are known by name, and on a gateway's clients.
#[derive(Debug, Subcommand)]
pub(crate) enum PeersAction {
    /// Add a host by name, and let it reach the ports that this host offers
    Add {
        /// The host's name in a directory, such as bob@example.org
        #[arg(value_name = "USER@DOMAIN")]
        name: HostNameAt,
        /// The host's key, as `hawser peers key` prints it on that host, or an invite of that host
        #[arg(value_name = "KEY|@INVITE|-", value_parser = key_source, allow_hyphen_values = true)]
        key: Option<KeySource>,
        /// Trust the key of the host that answers the first call; only the directory vouches for it
        #[arg(long, conflicts_with = "key")]
        trust_first: bool,
    },
    /// List the hosts known by name and the clients of this gateway
    List(TableArgs),
    /// Remove a host, and end its sessions; or forget a peer that this host enrolled with
    Remove {
        /// The host's name, as `hawser peers list` shows it, or the peer's key
        #[arg(value_name = "USER@DOMAIN|KEY", value_parser = removed, allow_hyphen_values = true)]
        peer: Removed,
    },
    /// Print this host's key, for the hosts that add it
    Key,
    /// Remove a client of this gateway, and end its sessions
    Revoke {
        /// The client's key, as `hawser peers` shows it
        #[arg(value_name = "KEY", value_parser = key, allow_hyphen_values = true)]
        key: PublicKey,
    },
}

/// Peer to remove.
#[derive(Clone, Debug)]
pub(crate) enum Removed {
    /// A host that is known by name.
    Name(HostNameAt),
    /// A gateway or peer that this host has enrolled with.
    Key(PublicKey),
}

fn removed(text: &str) -> Result<Removed, String> {
    if !text.contains('@') {
        return key(text).map(Removed::Key);
    }
    let name: Result<HostNameAt, _> = text.parse();
    name.map(Removed::Name).map_err(|error| error.to_string())
}

/// Source of a host's key.
#[derive(Clone, Debug)]
pub(crate) enum KeySource {
    /// The key.
    Key(PublicKey),
    /// An invite of that host.
    Invite(GatewaySource),
}

fn key_source(text: &str) -> Result<KeySource, String> {
    if let Ok(key) = text.parse() {
        return Ok(KeySource::Key(key));
    }
    text.parse().map(KeySource::Invite).map_err(|_| {
        "expected a key of 43 characters as `hawser peers key` prints it, or an invite: @FILE, \
         - for standard input, or the invite itself"
            .to_owned()
    })
}

fn key(text: &str) -> Result<PublicKey, String> {
    text.parse()
        .map_err(|error| format!("expected a key as `hawser peers` shows it: {error}"))
}
