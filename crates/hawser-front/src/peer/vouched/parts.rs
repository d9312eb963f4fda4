//! Settings for names that are held to their vouchers, and the state of these names.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use hawser_keys::identity::PublicKey;
use hawser_keys::store::VoucherStore;
use hawser_keys::unix_time::UnixTime;
use hawser_net::client::Client;
use hawser_policy::RuleSet;
use hawser_types::HostName;
use tokio::sync::watch;

use crate::connection::SharedDirector;
use crate::root_certificates::RootCertificates;
use crate::this_machine::ThisMachine;
use crate::transport::DialError;

/// The parts that hold names to their vouchers.
pub struct VouchedSettings {
    /// The names.
    pub names: Vec<HostName>,
    /// Certificates that authenticate a name when its voucher is fetched.
    pub roots: RootCertificates,
    /// The vouchers that are known.
    pub store: VoucherStore,
    /// Decides over which links vouchers are fetched and servers asked for their keys.
    pub director: SharedDirector,
    /// This machine, whose addresses are never held.
    pub machine: ThisMachine,
    /// Port where servers listen for hosts that have not enrolled.
    pub port: u16,
    /// Begins to connect to the server with a key, by a key of this host that no other server sees.
    pub start: Box<StartVouched>,
    /// The user's rules for connections.
    pub rules: watch::Receiver<Arc<RuleSet>>,
}

/// Begins to connect to the server with this key at this address, if possible.
pub type StartVouched = dyn Fn(SocketAddr, PublicKey) -> Option<Arc<Client>> + Send + Sync;

/// The current state of a name that is held to its voucher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VouchedName {
    /// The name.
    pub name: HostName,
    /// The ports whose connections go over a session; empty without a voucher, or where the voucher
    /// says that the name has no Hawser.
    pub ports: BTreeSet<u16>,
    /// Expiry of the voucher. `None` without a voucher: all connections to the name are refused.
    pub until: Option<UnixTime>,
    /// Whether a session with a server of the name runs.
    pub is_bonded: bool,
    /// Why the last connection to the name was refused; `None` if it was not refused.
    pub refused: Option<String>,
    /// Why the last fetch of the voucher failed; an older voucher may still hold.
    pub stale: Option<String>,
}

/// Opens a stream to a server that proves a key of the name's voucher, and returns the server's
/// address and the stream.
pub type VouchedWay<'a, S> = BoxFuture<'a, Result<(IpAddr, S), DialError>>;
