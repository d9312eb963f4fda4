//! Servers whose keys are vouched for by their owners, for names that the user selects.
//!
//! A name that the user gives is *held* to its *voucher*, the file that its owner publishes over
//! HTTPS ([`hawser_keys::voucher`]): a connection to a port in the voucher goes over a session with
//! a server that proves one of the voucher's keys, or is refused. Neither handshakes nor other keys
//! on the connection's path change that. Without a voucher, all connections to the name are
//! refused. Captured applications connect to addresses: an address that they or this host were told
//! for a held name is held like the name.

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
use hawser_keys::identity::PublicKey;
use hawser_net::client::Client;
use hawser_wire::dns::DnsQuestion;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::peers::may_use_all_links;
use crate::bonded::Bonded;
use crate::connection::{HeldDestinations, Origin};
use crate::destination::Destination;
pub use parts::{StartVouched, VouchedName, VouchedSettings, VouchedWay};
use shared::{VouchedState, keep};
use watched::Watched;

/// Sessions with servers that are vouched for. Lives until its last clone is dropped.
#[derive(Clone)]
pub struct VouchedServers {
    shared: Arc<VouchedState>,
    _keeping: Arc<Keeping>,
}

/// Opens connections to the names that the user has selected, only as their vouchers permit.
pub trait DialVouched<S>: Send + Sync {
    /// Returns `None` where the destination is not held to a voucher. Otherwise the future waits
    /// for a missing voucher and returns the only way of the connection, or `None` where the
    /// voucher lets it go as usual.
    fn judge<'a>(
        &'a self,
        destination: &'a Destination,
        origin: &'a Origin,
    ) -> Option<BoxFuture<'a, Option<VouchedWay<'a, S>>>>;
}

struct Keeping(Vec<JoinHandle<()>>);

impl VouchedServers {
    /// Begins to fetch vouchers, and fetches each again before it expires.
    pub fn start(settings: VouchedSettings) -> Self {
        let shared = Arc::new(VouchedState::new(settings));
        let names = shared.watched();
        let keeping = names.map(|it| tokio::spawn(keep(Arc::clone(&shared), Arc::clone(it))));
        let keeping = Keeping(keeping.collect());
        Self {
            shared,
            _keeping: Arc::new(keeping),
        }
    }

    /// Returns the names in their current state.
    pub fn names(&self) -> Vec<VouchedName> {
        self.shared.names()
    }

    /// Returns the client of each session, with the key of its server.
    pub fn clients(&self) -> Vec<(PublicKey, Arc<Client>)> {
        let clients = self.shared.pool.clients().into_iter();
        clients.map(|((_, key), client)| (key, client)).collect()
    }

    /// Returns whether an application may be told this answer to its question for a name. First
    /// records the addresses of a held name in the answer, and waits until connections to them are
    /// redirected to this process.
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
            tracing::warn!(%name, reason, "withholding the answer for this name: connections could \
                bypass its voucher");
        }
        held.is_ok()
    }

    /// Has connections to the addresses in an answer redirected to this process. The error says why
    /// not all of these connections are redirected.
    async fn hold_told(
        &self,
        watched: &Arc<Watched>,
        question: &DnsQuestion,
        answer: &[u8],
    ) -> Result<(), String> {
        let answer = question.decode_answer(answer);
        let answer = answer.map_err(|error| error.to_string())?;
        let answer = answer.ok_or("the answer is to another question")?;
        if answer.may_lead_elsewhere {
            return Err("the answer may have addresses that Hawser does not read".to_owned());
        }
        if !question.is_for_addresses() {
            let has_none = answer.addresses.is_empty();
            return has_none
                .then_some(())
                .ok_or_else(|| "the answer has addresses, which were not asked for".to_owned());
        }
        let led = &self.shared.led;
        let version = led.note(watched, &answer.addresses);
        let version = version.map_err(|error| error.to_string())?;
        let is_turned = led.is_turned(version).await;
        is_turned
            .then_some(())
            .ok_or_else(|| "the kernel does not redirect these connections yet".to_owned())
    }

    /// Sets the addresses of this machine's name servers, which are never held.
    pub(crate) fn set_name_servers(&self, servers: BTreeSet<IpAddr>) {
        self.shared.led.set_name_servers(servers);
    }

    /// Returns whether connections to this address and port are held to a voucher, so that they go
    /// through this process or are refused.
    pub fn holds(&self, to: SocketAddr, origin: &Origin) -> bool {
        let (shared, to) = (&self.shared, Destination::from(to));
        !shared.is_all_by_gateway()
            && shared.held(&to).is_some()
            && may_use_all_links(&shared.rules.borrow(), &to, origin)
    }

    /// Returns how many connections were opened over sessions so far.
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
        let judging = shared.judge(held, destination.port, origin);
        Some(judging.boxed())
    }
}

/// For connections that the capture program in the kernel places on links.
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
