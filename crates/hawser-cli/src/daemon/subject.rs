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
    /// Its sessions whose names are `wanted`, each with at most `max_streams` of its streams. The
    /// others cost nothing.
    fn sessions(&self, wanted: &dyn Fn(&str) -> bool, max_streams: usize) -> Vec<View>;

    /// Returns the number of sessions.
    fn session_count(&self) -> usize;

    /// The programs that asked for these streams of the session with this name, as far as they are
    /// known by now. The others are looked for from then on.
    fn programs(&self, _session: &str, _streams: &[StreamId]) -> BTreeMap<StreamId, Arc<str>> {
        BTreeMap::new()
    }

    /// Returns the number of programs that are being looked for, where that is done.
    fn sought(&self) -> Option<watch::Receiver<usize>> {
        None
    }

    /// The links of this machine.
    fn links(&self) -> Vec<LinkStatus>;

    /// The kill switch, where one is on.
    fn kill_switch(&self) -> Option<KillSwitchStatus> {
        None
    }

    /// The directory that it serves, with as many bindings as `most`.
    fn directory(&self, _most: usize) -> Option<DirectoryStatus> {
        None
    }

    /// This host's registration with a directory, where there is one.
    fn registration(&self) -> Option<RegistrationStatus> {
        None
    }

    /// Returns how it places connections on links, where it does.
    fn connections(&self) -> Option<ConnectionsStatus> {
        None
    }

    /// Returns the bytes that placed connections have sent and received over each link since the
    /// start, by the links' names.
    fn moved(&self) -> BTreeMap<String, [ByteCount; 2]> {
        BTreeMap::new()
    }

    /// Returns how it chooses links, where it does.
    fn policy(&self) -> Option<PolicyStatus> {
        None
    }

    /// Returns the connections that it has placed on links and remembers, where it does that.
    fn placed(&self, _which: PlacedRange) -> Option<PlacedReport> {
        None
    }

    /// Does otherwise from now on what is asked to be done so, as a whole or not at all. May wait
    /// for the disk, for a moment. `None`: it can't do otherwise.
    fn change(&self, _asked: &Request) -> Option<Changed> {
        None
    }

    /// Lets `read` see what the session with this name has recorded. `false`: there is none.
    fn recorder(&self, session: &str, read: &mut dyn FnMut(&Recorder, Instant)) -> bool;

    /// Returns the client whose session has this name, where this end is the client.
    fn client(&self, _session: &str) -> Option<Arc<Client>> {
        None
    }

    /// Returns its counters since the start.
    fn counters(&self) -> BTreeMap<String, u64>;
}

/// One session of a daemon.
pub(crate) struct View {
    /// Tells it from others.
    pub(crate) id: String,
    /// The far end.
    pub(crate) peer: String,
    /// Its paths, by the index of their links.
    pub(crate) paths: BTreeMap<u32, PathFacts>,
    /// The policy that chooses links.
    pub(crate) scheduler: &'static str,
    /// The congestion control that its channels ask for.
    pub(crate) congestion: String,
    /// The addresses of this machine that its channels use, where its links are the far end's to
    /// know.
    pub(crate) addresses: BTreeMap<(ChannelId, LinkIndex), IpAddr>,
    /// The far end is the gateway of this client.
    pub(crate) is_with_gateway: bool,
    /// This client has moved on to another session with the same far end.
    pub(crate) is_left: bool,
    /// Reason why there is no session.
    pub(crate) problem: Option<String>,
    /// Reason why there is no association although one is wanted.
    pub(crate) transport_problem: Option<String>,
    /// Names of far ends of flows of packets, as far as they are known.
    pub(crate) names: BTreeMap<IpAddr, Arc<str>>,
    /// The session; none while it is being made.
    pub(crate) session: Option<SessionSnapshot>,
}

impl View {
    /// The name of a link, or its number where the name is the far end's to know.
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

/// Stands for the link of an association's path that is not known (yet).
const UNKNOWN_LINK: &str = "(unknown link)";

/// The daemon's knowledge of one path to the far end, beside the path's channels.
#[derive(Default)]
pub(crate) struct PathFacts {
    pub(crate) link: String,
    pub(crate) address: Option<IpAddr>,
    pub(crate) remote: Option<SocketAddr>,
    pub(crate) problem: Option<String>,
}

/// PlacedRange connections are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlacedRange {
    /// The latest, this many at most.
    Latest(usize),
    /// The one with this number.
    One(u64),
}
