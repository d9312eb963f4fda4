//! The state that all ports share, and the answers to queries.

use std::net::SocketAddr;

use hawser_link::links::Link;
use hawser_link::names::Names;
use hawser_wire::dns::{DnsQuestion, cut, datagram_limit, failure, no_records};

use super::known::KnownNames;
use super::limits::Limits;
use crate::peer::{ReservedNames, VouchedServers};
use crate::this_machine::ThisMachine;
use crate::told_names::ToldNames;

/// The names, the links that help, and the queries in progress.
pub(super) struct Answering {
    pub(super) names: Names,
    /// Names that no server is asked for.
    pub(super) reserved: ReservedNames,
    pub(super) told: ToldNames,
    /// This machine, to which names of the internet must not lead.
    pub(super) machine: ThisMachine,
    /// Names of the addresses in answers.
    pub(super) known: KnownNames,
    /// The vouched names, to which connections are held, and their addresses.
    pub(super) held: Option<VouchedServers>,
    pub(super) links: Box<dyn Fn() -> Vec<Link> + Send + Sync>,
    pub(super) limits: Limits,
}

/// The server that a query was meant for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meant {
    /// This server of the machine.
    For(SocketAddr),
    /// No particular server: the first one. Other hosts send such queries, so only ordinary ones
    /// are answered.
    ForAny,
}

impl Answering {
    /// Returns the answer to `query`. Without one, returns a failure, so that an application on a
    /// machine without links need not wait. `None` for anything but a query.
    pub(super) async fn answer(&self, query: &[u8], meant: Meant) -> Option<Vec<u8>> {
        if self.is_reserved(query) {
            return failure(query);
        }
        let server = match meant {
            Meant::For(server) => server,
            Meant::ForAny => {
                DnsQuestion::decode(query)
                    .ok()
                    .filter(DnsQuestion::is_ordinary)?;
                let servers = self.names.servers(&(self.links)()).await;
                match servers.first() {
                    Some(server) => *server,
                    None => return failure(query),
                }
            }
        };
        match self.names.answer(query, server, &(self.links)()).await {
            // Not a failure: applications would ask the next server, which may lie as well.
            Ok(answer) if !self.may_lead_there(query, &answer).await => no_records(query),
            Ok(answer) => {
                self.known.note(query, &answer);
                match &self.held {
                    Some(held) if !held.may_tell(query, &answer).await => failure(query),
                    _ => Some(answer),
                }
            }
            Err(error) => {
                tracing::debug!(%server, %error, "can't answer an application's name query");
                failure(query)
            }
        }
    }

    /// Returns whether the name in a query may lead to the addresses in the answer. One address
    /// that is not admitted makes the answer useless: names of the internet have no such address.
    async fn may_lead_there(&self, query: &[u8], answer: &[u8]) -> bool {
        let Ok(question) = DnsQuestion::decode(query) else {
            return true;
        };
        let is_for_addresses = question.is_for_addresses() || question.may_hint_at_addresses();
        let Ok(Some(answer)) = question.decode_answer(answer) else {
            return !is_for_addresses;
        };
        if answer.has_unread && is_for_addresses {
            tracing::debug!(host = ?question.name(),
                "refusing a name server's answer that can't be read whole");
            return false;
        }
        let (all, told) = (answer.told.len(), answer.told);
        let admitted = self.machine.admitted_of_name(&question.name(), told).await;
        admitted.len() == all
    }

    fn is_reserved(&self, query: &[u8]) -> bool {
        let Ok(question) = DnsQuestion::decode(query) else {
            return false;
        };
        let name = question.name();
        let is_reserved = self.reserved.is_within(&name);
        if is_reserved && self.told.add(&name) {
            tracing::warn!(host = ?name, "not resolving the name of a known host: \
                programs reach it only by the proxy port of `hawser up --name`");
        }
        is_reserved
    }

    /// Returns the answer, cut to the datagram size that the application accepts.
    pub(super) async fn datagram(&self, query: &[u8], meant: Meant) -> Option<Vec<u8>> {
        let answer = self.answer(query, meant).await?;
        if answer.len() > datagram_limit(query) {
            Some(cut(&answer))
        } else {
            Some(answer)
        }
    }
}
