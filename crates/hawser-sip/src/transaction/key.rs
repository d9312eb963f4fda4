//! Matching of messages to transactions (RFC 3261 §17.1.3, §17.2.3).

use crate::message::{Essentials, Method, Request};

/// Key of a transaction of one end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    branch: String,
    method: Method,
}

impl Key {
    /// Returns the key of a sent request, or of a response to it.
    pub(super) fn of_client(essentials: &Essentials) -> Option<Self> {
        let branch = essentials.vias.first()?.branch()?;
        is_branch(branch).then(|| Self {
            branch: branch.to_owned(),
            method: essentials.cseq.method.clone(),
        })
    }

    /// Returns the key of a received request. An ACK has the key of its INVITE.
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

    /// Returns the key of the INVITE that a CANCEL cancels.
    pub(super) fn of_cancelled(request: &Request, essentials: &Essentials) -> Self {
        Self {
            branch: server_branch(request, essentials),
            method: Method::Invite,
        }
    }
}

/// Returns the branch with its sender, because hosts choose branches independently. Without a valid
/// branch (before RFC 3261), returns all values that a retransmission repeats.
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

/// Whether a branch has the prefix that promises uniqueness.
fn is_branch(branch: &str) -> bool {
    const COOKIE: &str = "z9hG4bK";
    branch.len() > COOKIE.len()
        && branch
            .get(..COOKIE.len())
            .is_some_and(|begin| begin.eq_ignore_ascii_case(COOKIE))
}
