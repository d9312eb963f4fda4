//! Servers whose keys their owners vouch for, where the user asks for that.
//!
//! A name that the user gives is held to its *voucher*, the file that its owner publishes over
//! HTTPS ([`hawser_net::voucher`]): connections to the ports in it go over a session with a server
//! that proves one of its keys, or nowhere. Nothing that comes by the way of such a connection
//! changes that: neither what handshakes say nor another key. While there is no voucher, all
//! connections to the name are refused. Captured programs connect to addresses: those that they or
//! this host were told for such a name are held like the name.

mod fetch;
mod led;
mod parts;
mod refusal;
mod shared;
#[cfg(test)]
mod tests;
mod watched;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use hawser_net::client::Client;
use hawser_net::identity::PublicKey;
use hawser_wire::dns::{DnsQuestion, MAX_ADDRESSES};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::peers::may_use_all_links;
use crate::bonded::Bonded;
use crate::connection::{HeldDestinations, Origin};
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

    /// Whether a program may be told this answer to its question for a name. What the answer says
    /// of a name that is held is noted first, and waits until connections to these addresses come
    /// to this process.
    pub(crate) async fn may_tell(&self, query: &[u8], answer: &[u8]) -> bool {
        let Ok(question) = DnsQuestion::decode(query) else {
            return true;
        };
        let name = question.name();
        let Some(watched) = self.shared.named(&name) else {
            return true;
        };
        if !question.is_for_addresses() {
            return !question.may_hint_at_addresses();
        }
        let is_turned = async {
            // Of more addresses than are read the others would be told, and not held.
            let answer = question.decode_answer(answer).ok()??;
            let addresses = (answer.addresses.len() < MAX_ADDRESSES).then_some(answer.addresses)?;
            let version = self.shared.led.note(&watched, &addresses).ok()?;
            self.shared.led.is_turned(version).await.then_some(())
        };
        let is_turned = is_turned.await.is_some();
        if !is_turned {
            tracing::warn!(%name, "a program is not told where this name leads to: its connections \
                could go past the name's voucher");
        }
        is_turned
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
        let watched = shared.held(destination)?;
        // The user's own word.
        if !may_use_all_links(&shared.rules.borrow(), destination, origin) {
            return None;
        }
        let judging = shared.judge(watched, destination.port, origin);
        Some(judging.boxed())
    }
}

/// For connections that the kernel places.
impl HeldDestinations for VouchedServers {
    fn held(&self) -> (u64, Vec<SocketAddr>) {
        self.shared.held_addresses()
    }

    fn versions(&self) -> watch::Receiver<u64> {
        self.shared.led.versions()
    }

    fn note_turned(&self, version: u64) {
        self.shared.led.note_turned(version);
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}
