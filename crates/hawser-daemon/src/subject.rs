//! The parts of a daemon that can be shown and changed: [`Subject`] and its types.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use hawser_control::{
    ConnectionsStatus, DirectoryStatus, KillSwitchStatus, LinkStatus, PlacedReport, PolicyStatus,
    RegistrationStatus, Request,
};
use hawser_net::client::Client;
use hawser_session::SessionSnapshot;
use hawser_session::recorder::Recorder;
use hawser_types::{ByteCount, ChannelId, Instant, LinkIndex, StreamId};
use tokio::sync::watch;

use super::refusal::Changed;

/// The parts of a daemon that can be shown and changed.
pub(crate) trait Subject: Send + Sync + 'static {
    /// Returns the sessions whose names are `wanted`, each with at most `max_streams` of its
    /// streams. Other sessions cost no time.
    fn sessions(&self, wanted: &dyn Fn(&str) -> bool, max_streams: usize) -> Vec<View>;

    /// Returns the number of sessions.
    fn session_count(&self) -> usize;

    /// Returns the programs that opened these streams of the session with this name, as far as they
    /// are known by now. Begins to look for the others.
    fn programs(&self, _session: &str, _streams: &[StreamId]) -> BTreeMap<StreamId, Arc<str>> {
        BTreeMap::new()
    }

    /// Returns the number of programs that are being looked for, if the daemon does that.
    fn sought(&self) -> Option<watch::Receiver<usize>> {
        None
    }

    /// Returns the links of this machine.
    fn links(&self) -> Vec<LinkStatus>;

    /// Returns the kill switch, if one is on.
    fn kill_switch(&self) -> Option<KillSwitchStatus> {
        None
    }

    /// Returns the directory that the daemon runs, with at most `most` bindings.
    fn directory(&self, _most: usize) -> Option<DirectoryStatus> {
        None
    }

    /// Returns this host's registration with a directory, if there is one.
    fn registration(&self) -> Option<RegistrationStatus> {
        None
    }

    /// Returns how the daemon places connections on links, if it does.
    fn connections(&self) -> Option<ConnectionsStatus> {
        None
    }

    /// Returns the bytes that placed connections have sent and received over each link since the
    /// start, by the links' names.
    fn moved(&self) -> BTreeMap<String, [ByteCount; 2]> {
        BTreeMap::new()
    }

    /// Returns how the daemon chooses links, if it does.
    fn policy(&self) -> Option<PolicyStatus> {
        None
    }

    /// Returns the connections that the daemon has placed on links and remembers, if it does that.
    fn placed(&self, _which: PlacedRange) -> Option<PlacedReport> {
        None
    }

    /// Carries out a change as a whole or not at all. May wait for the disk for a moment. Returns
    /// `None` if the daemon does not support changes.
    fn change(&self, _asked: &Request) -> Option<Changed> {
        None
    }

    /// Calls `read` with the recorder of the session with this name; returns `false` if there is
    /// none.
    fn recorder(&self, session: &str, read: &mut dyn FnMut(&Recorder, Instant)) -> bool;

    /// Returns the client whose session has this name, if this end is the client.
    fn client(&self, _session: &str) -> Option<Arc<Client>> {
        None
    }

    /// Returns the daemon's counters since the start.
    fn counters(&self) -> BTreeMap<String, u64>;
}

/// One session of a daemon.
#[derive(Default)]
pub(crate) struct View {
    /// Name of the session.
    pub(crate) id: String,
    /// The far end.
    pub(crate) peer: String,
    /// Paths of the session, by the index of their links.
    pub(crate) paths: BTreeMap<u32, PathFacts>,
    /// The policy that chooses links.
    pub(crate) scheduler: &'static str,
    /// The congestion control that the session's channels ask for.
    pub(crate) congestion: String,
    /// Local addresses of the channels, if only the far end knows the links.
    pub(crate) addresses: BTreeMap<(ChannelId, LinkIndex), IpAddr>,
    /// The far end is the gateway of this client.
    pub(crate) is_with_gateway: bool,
    /// This client has moved on to another session with the same far end.
    pub(crate) is_left: bool,
    /// Reason why there is no session.
    pub(crate) problem: Option<String>,
    /// Reason why there is no association although it is configured.
    pub(crate) transport_problem: Option<String>,
    /// Names of the far ends of flows of packets, as far as they are known.
    pub(crate) names: BTreeMap<IpAddr, Arc<str>>,
    /// The session; `None` while it is being established.
    pub(crate) session: Option<SessionSnapshot>,
}

impl View {
    /// Returns the name of a link, or its number if only the far end knows the name.
    pub(crate) fn link_name(&self, link: LinkIndex) -> String {
        if link == LinkIndex::ALL {
            return UNKNOWN_LINK.to_owned();
        }
        match self.paths.get(&link.value()) {
            Some(way) if !way.link.is_empty() => way.link.clone(),
            _ => format!("#{}", link.value()),
        }
    }
}

/// Placeholder for the link of an association's path that is not known (yet).
const UNKNOWN_LINK: &str = "(unknown link)";

/// The daemon's knowledge of one path to the far end, beside the path's channels.
#[derive(Default)]
pub(crate) struct PathFacts {
    pub(crate) link: String,
    pub(crate) address: Option<IpAddr>,
    pub(crate) remote: Option<SocketAddr>,
    pub(crate) problem: Option<String>,
}

/// Range of placed connections that a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlacedRange {
    /// The latest, this many at most.
    Latest(usize),
    /// The connection with this number.
    One(u64),
}
