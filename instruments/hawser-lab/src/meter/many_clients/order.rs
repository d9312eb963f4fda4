//! Parameters of the process.

use std::net::SocketAddrV4;

use hawser_keys::identity::PublicKey;

/// The clients to be, and where they go.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ManyClients {
    /// The gateway
    pub(super) gateway: SocketAddrV4,
    /// The gateway's key, which may begin with a hyphen
    #[arg(allow_hyphen_values = true)]
    pub(super) key: PublicKey,
    /// Number of honest clients; one more is there that may be told to be hostile
    pub(super) clients: u32,
    /// The meter behind the gateway
    pub(super) target: SocketAddrV4,
    /// The links of every client
    #[arg(long = "link")]
    pub(super) links: Vec<String>,
}
