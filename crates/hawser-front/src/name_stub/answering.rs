//! What all ports answer by.

use std::net::SocketAddr;

use hawser_net::links::Link;
use hawser_net::names::Names;
use hawser_wire::dns::{DnsQuestion, cut, datagram_limit, failure};

use super::known::KnownNames;
use super::limits::Limits;
use crate::peer::{ReservedNames, ToldNames, VouchedServers};

/// The names, the links that help, and what is in flight.
pub(super) struct Answering {
    pub(super) names: Names,
    /// Nobody is asked for them.
    pub(super) reserved: ReservedNames,
    pub(super) told: ToldNames,
    /// Names of the addresses that were answered.
    pub(super) known: KnownNames,
    /// Names that are held to their vouchers, wherever they lead to.
    pub(super) held: Option<VouchedServers>,
    pub(super) links: Box<dyn Fn() -> Vec<Link> + Send + Sync>,
    pub(super) limits: Limits,
}

/// Whom a question was meant for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meant {
    /// This server of the machine.
    For(SocketAddr),
    /// Whichever comes first. Such questions come from elsewhere, so nothing else is passed on.
    ForAny,
}

impl Answering {
    /// The answer to `query`. If there is none, the answer says that nobody could find out, so that
    /// a program on a machine without links need not wait. None for what is no question.
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
            Ok(answer) => {
                self.known.note(query, &answer);
                match &self.held {
                    Some(held) if !held.may_tell(query, &answer).await => failure(query),
                    _ => Some(answer),
                }
            }
            Err(error) => {
                tracing::debug!(%server, %error, "there is no answer for a program");
                failure(query)
            }
        }
    }

    fn is_reserved(&self, query: &[u8]) -> bool {
        let Ok(question) = DnsQuestion::decode(query) else {
            return false;
        };
        let name = question.name();
        let is_reserved = self.reserved.is_within(&name);
        if is_reserved && self.told.add(&name) {
            tracing::warn!(host = ?name, "this name is in the book of known hosts, \
                which programs reach by the proxy port of `hawser up --name` alone");
        }
        is_reserved
    }

    /// The same as far as it fits what the program takes in a datagram.
    pub(super) async fn datagram(&self, query: &[u8], meant: Meant) -> Option<Vec<u8>> {
        let answer = self.answer(query, meant).await?;
        match answer.len() > datagram_limit(query) {
            true => Some(cut(&answer)),
            false => Some(answer),
        }
    }
}
