//! The states of a client's links, for users and for the choice of addresses.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use hawser_types::{LinkIndex, SessionId};

use hawser_link::links::Link;

/// The state of one of a client's links.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkStatus {
    /// The link.
    pub link: Link,
    /// The gateway's address that this link's channels go to, once one worked.
    pub remote: Option<SocketAddr>,
    /// Why the last attempt to add a channel, or to begin a session, failed. Before the first
    /// attempt, what it waits for. `None` while the link works.
    pub problem: Option<String>,
}

/// The state of each link in the current session, or of the attempts to begin one. Reports of
/// superseded sessions are ignored.
#[derive(Debug, Default)]
pub(super) struct LinkStatuses {
    session: Option<SessionId>,
    by_link: BTreeMap<LinkIndex, LinkStatus>,
}

impl LinkStatuses {
    /// Makes a session the current one, and forgets all earlier reports.
    pub(super) fn begin(&mut self, session: SessionId) {
        self.session = Some(session);
        self.by_link.clear();
    }

    /// Forgets all reports if this session is the current one: it is over.
    pub(super) fn end(&mut self, session: SessionId) {
        if self.session == Some(session) {
            *self = Self::default();
        }
    }

    /// Stores a session's report on a link.
    pub(super) fn report(&mut self, session: SessionId, status: LinkStatus) {
        if self.session == Some(session) {
            self.by_link.insert(status.link.index, status);
        }
    }

    /// Removes a link that a session uses no more.
    pub(super) fn remove(&mut self, session: SessionId, link: LinkIndex) {
        if self.session == Some(session) {
            self.by_link.remove(&link);
        }
    }

    /// Sets the address that a session is about to use over a link.
    pub(super) fn set_remote(&mut self, session: SessionId, link: LinkIndex, remote: SocketAddr) {
        let by_link = &mut self.by_link;
        if let Some(status) = by_link
            .get_mut(&link)
            .filter(|_| self.session == Some(session))
        {
            status.remote = Some(remote);
        }
    }

    /// The links that are tried while there is no session.
    pub(super) fn tried(&mut self) -> &mut BTreeMap<LinkIndex, LinkStatus> {
        &mut self.by_link
    }

    /// The state of each link.
    pub(super) fn by_link(&self) -> &BTreeMap<LinkIndex, LinkStatus> {
        &self.by_link
    }
}
