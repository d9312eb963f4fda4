//! Servers whose keys their owners vouch for, where the user asks for that.
//!
//! A name that the user gives is held to its *voucher*, the file that its owner publishes over
//! HTTPS ([`hawser_net::voucher`]): connections to the ports in it go over a session with a server
//! that proves one of its keys, or nowhere. Nothing that comes by the way of such a connection
//! changes that: neither what handshakes say nor another key. While there is no voucher, all
//! connections to the name are refused.

mod fetch;
mod parts;
mod refusal;
mod shared;
#[cfg(test)]
mod tests;
mod watched;

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use hawser_net::client::Client;
use hawser_net::identity::PublicKey;
use tokio::task::JoinHandle;

use super::peers::may_use_all_links;
use crate::bonded::Bonded;
use crate::connection::Origin;
use crate::destination::Destination;
pub use parts::{StartVouched, VouchedName, VouchedSettings, VouchedWay};
use shared::{Shared, keep};

/// Sessions with servers that are vouched for. Lives until its last clone is dropped.
#[derive(Clone)]
pub struct VouchedServers {
    shared: Arc<Shared>,
    _keeping: Arc<Keeping>,
}

/// Opens connections to names that are held to their vouchers.
pub trait DialVouched<S>: Send + Sync {
    /// Whether a connection is held to a voucher; `None` where its name is not. What comes then
    /// waits for the voucher where there is none yet, and gives the only way of that connection;
    /// `None` where the voucher lets it go as ever.
    fn judge<'a>(
        &'a self,
        destination: &'a Destination,
        origin: &'a Origin,
    ) -> Option<BoxFuture<'a, Option<VouchedWay<'a, S>>>>;
}

struct Keeping(Vec<JoinHandle<()>>);

impl VouchedServers {
    /// Begins to fetch vouchers, and to fetch each again before it ends.
    pub fn start(settings: VouchedSettings) -> Self {
        let shared = Arc::new(Shared::new(settings));
        let names = shared.watched();
        let keeping = names.map(|it| tokio::spawn(keep(Arc::clone(&shared), Arc::clone(it))));
        let keeping = Keeping(keeping.collect());
        Self {
            shared,
            _keeping: Arc::new(keeping),
        }
    }

    /// The names, as they are now.
    pub fn names(&self) -> Vec<VouchedName> {
        self.shared.names()
    }

    /// The clients, with the keys of the servers.
    pub fn clients(&self) -> Vec<(PublicKey, Arc<Client>)> {
        let clients = self.shared.pool.clients().into_iter();
        clients.map(|((_, key), client)| (key, client)).collect()
    }

    /// Connections that came about over sessions so far.
    pub fn opened(&self) -> u64 {
        self.shared.pool.opened()
    }

    /// Ends all sessions in order, within `patience`.
    pub async fn close(&self, patience: Duration) {
        self.shared.pool.close(patience).await;
    }
}

impl DialVouched<Bonded> for VouchedServers {
    fn judge<'a>(
        &'a self,
        destination: &'a Destination,
        origin: &'a Origin,
    ) -> Option<BoxFuture<'a, Option<VouchedWay<'a, Bonded>>>> {
        let shared = &self.shared;
        let watched = shared.held(&destination.host)?;
        // The user's own word.
        if !may_use_all_links(&shared.rules.borrow(), destination, origin) {
            return None;
        }
        Some(shared.judge(watched, destination, origin).boxed())
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}
