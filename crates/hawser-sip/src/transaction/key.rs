//! Which transaction a message belongs to (RFC 3261 §17.1.3, §17.2.3).

use crate::message::{Essentials, Method, Request};

/// What tells transactions of one end apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    branch: String,
    method: Method,
}

impl Key {
    /// The key of a request that is sent, or of an answer to it.
    pub(super) fn of_client(essentials: &Essentials) -> Option<Self> {
        let branch = essentials.vias.first()?.branch()?;
        is_branch(branch).then(|| Self {
            branch: branch.to_owned(),
            method: essentials.cseq.method.clone(),
        })
    }

    /// The key of a request that has come. ACK belongs to its INVITE.
    pub(super) fn of_server(request: &Request, essentials: &Essentials) -> Self {
        let method = match essentials.cseq.method {
            Method::Ack => Method::Invite,
            ref other => other.clone(),
        };
        Self {
            branch: server_branch(request, essentials),
            method,
        }
    }

    /// The key of the INVITE that a CANCEL gives up.
    pub(super) fn of_cancelled(request: &Request, essentials: &Essentials) -> Self {
        Self {
            branch: server_branch(request, essentials),
            method: Method::Invite,
        }
    }
}

/// The branch with who sent it: hosts choose branches for themselves. Those from before RFC 3261
/// are told apart by all that a repeated request has in common.
fn server_branch(request: &Request, essentials: &Essentials) -> String {
    let Some(via) = essentials.vias.first() else {
        return String::new();
    };
    let port = via.port.unwrap_or_else(|| via.transport.default_port());
    match via.branch().filter(|branch| is_branch(branch)) {
        Some(branch) => format!("{branch} {}:{port}", via.host),
        None => format!(
            "{} {} {} {} {}:{port} {}",
            request.uri,
            essentials.from.tag().unwrap_or_default(),
            essentials.call_id.as_str(),
            essentials.cseq.number,
            via.host,
            via.branch().unwrap_or_default(),
        ),
    }
}

/// Whether a branch is unique, as those that begin like this promise to be.
fn is_branch(branch: &str) -> bool {
    const COOKIE: &str = "z9hG4bK";
    branch.len() > COOKIE.len()
        && branch
            .get(..COOKIE.len())
            .is_some_and(|begin| begin.eq_ignore_ascii_case(COOKIE))
}
