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

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use hawser_net::client::Client;
use hawser_net::identity::PublicKey;
use hawser_wire::dns::DnsQuestion;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::peers::may_use_all_links;
use crate::bonded::Bonded;
use crate::connection::{HeldDestinations, Origin};
use crate::destination::Destination;
pub use parts::{StartVouched, VouchedName, VouchedSettings, VouchedWay};
use shared::{Shared, keep};
use watched::Watched;

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
        if question.may_hint_at_addresses() {
            return false;
        }
        let held = self.hold_told(&watched, &question, answer).await;
        if let Err(reason) = &held {
            tracing::warn!(%name, reason, "a program is not told where this name leads to: its \
                connections could go past the name's voucher");
        }
        held.is_ok()
    }

    /// Has connections come to this process to what an answer says of a name; else says why not
    /// all of them do.
    async fn hold_told(
        &self,
        watched: &Arc<Watched>,
        question: &DnsQuestion,
        answer: &[u8],
    ) -> Result<(), String> {
        let answer = question.decode_answer(answer);
        let answer = answer.map_err(|error| error.to_string())?;
        let answer = answer.ok_or("it is an answer to something else")?;
        if answer.may_lead_elsewhere {
            return Err("the answer has addresses that are not read".to_owned());
        }
        if !question.is_for_addresses() {
            let has_none = answer.addresses.is_empty();
            return has_none
                .then_some(())
                .ok_or_else(|| "nobody asked for addresses".to_owned());
        }
        let led = &self.shared.led;
        let version = led.note(watched, &answer.addresses);
        let version = version.map_err(|error| error.to_string())?;
        let is_turned = led.is_turned(version).await;
        is_turned
            .then_some(())
            .ok_or_else(|| "the kernel does not turn them yet".to_owned())
    }

    /// Addresses of this machine's name servers, which are held to nothing whoever leads there.
    pub(crate) fn set_name_servers(&self, servers: BTreeSet<IpAddr>) {
        self.shared.led.set_name_servers(servers);
    }

    /// Whether what goes to this address and port is held: it goes by this process or nowhere.
    pub fn holds(&self, to: SocketAddr, origin: &Origin) -> bool {
        let (shared, to) = (&self.shared, Destination::from(to));
        !shared.is_all_by_gateway()
            && shared.held(&to).is_some()
            && may_use_all_links(&shared.rules.borrow(), &to, origin)
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
        let held = shared.held(destination)?;
        // The user's own word.
        if !may_use_all_links(&shared.rules.borrow(), destination, origin) {
            return None;
        }
        let judging = shared.judge(held, destination.port, origin);
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
