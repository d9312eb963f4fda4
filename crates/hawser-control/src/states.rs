//! The state of links, sessions and the gateway, derived from everything that a daemon knows.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use crate::{
    ConnectionsStatus, GatewayStatus, LinkState, LinkStatus, PathStanding, PathState, PathStatus,
    PlacingStatus, Role, SessionState, SessionStatus, StatusSnapshot,
};

/// Settles the states in snapshots of a daemon, so that no monitor has to derive them. It remembers
/// since when each state holds.
///
/// Evidence of a link, the strongest first: the kernel's state of the interface; the latest sign of
/// life, or the overdue one, of sessions' paths and of connections over the link; then obstacles to
/// a gateway that other links reach. A silent link stays silent until a sign of life arrives;
/// the end of the session over it is no such sign.
#[derive(Debug, Default)]
pub struct States {
    links: BTreeMap<String, KnownLink>,
    /// Time since when each session is interrupted.
    sessions: BTreeMap<String, u64>,
    gateway: KnownGateway,
}

#[derive(Debug)]
struct KnownLink {
    state: LinkState,
    reason: Option<String>,
    since: Option<u64>,
    addresses: Vec<IpAddr>,
}

#[derive(Debug, Default)]
struct KnownGateway {
    /// Time since when no session with the gateway answers.
    missed_since: Option<u64>,
    /// Whether it was reached before, so that its loss is reported at once.
    was_reached: bool,
}

impl KnownLink {
    /// True if a sign of life at this time ended the silence. The one at which the silence began
    /// does not, although it may seem slightly later: the clocks are read one after the other.
    fn is_broken_by(&self, heard_unix_ms: u64) -> bool {
        let since = self.since.unwrap_or(0);
        heard_unix_ms > since + milliseconds(LEAST_SILENCE / 2)
    }
}

/// The state of a link according to current evidence.
#[derive(Debug, PartialEq, Eq)]
struct Verdict {
    state: LinkState,
    reason: Option<String>,
    /// Time since the last sign of life: for a silent link the one before its silence, otherwise
    /// the latest on connections over it.
    heard: Option<Duration>,
}

impl States {
    /// Settles the states of links, sessions and the gateway at this time, in milliseconds since
    /// 1970-01-01 00:00 UTC. A client's snapshot has to list all sessions.
    pub fn settle(&mut self, now_unix_ms: u64, seen: &mut StatusSnapshot) {
        for session in &mut seen.sessions {
            self.settle_session(now_unix_ms, session);
        }
        if seen.sessions.len() as u64 >= seen.session_count {
            let sessions = &seen.sessions;
            self.sessions
                .retain(|id, _| sessions.iter().any(|session| session.id == *id));
        }
        // A gateway's paths have the link numbers of its clients.
        let own = match seen.role {
            Role::Client => &seen.sessions[..],
            _ => &[],
        };
        for link in &mut seen.links {
            let verdict = judge(link, own, placing(seen.connections.as_ref(), link));
            self.settle_link(now_unix_ms, link, verdict, own);
        }
        let links = &seen.links;
        self.links
            .retain(|name, _| links.iter().any(|link| link.name == *name));
        let gateway = seen.connections.as_mut().and_then(|it| it.gateway.as_mut());
        let mut with_gateway = own.iter().filter(|session| session.is_with_gateway);
        let session = with_gateway.find(|session| !session.is_left);
        if let (Some(gateway), Some(session)) = (gateway, session) {
            self.gateway.settle(now_unix_ms, gateway, session);
        }
    }

    fn settle_link(
        &mut self,
        now: u64,
        link: &mut LinkStatus,
        mut verdict: Verdict,
        sessions: &[SessionStatus],
    ) {
        let begun = |ago: Option<Duration>| now.saturating_sub(ago.map_or(0, milliseconds));
        let known = self.links.get(&link.name);
        let known = known.filter(|known| known.addresses == link.addresses);
        let living = paths_of(link, sessions).filter(|path| path.state == PathState::Up);
        let heard = living
            .filter_map(|path| path.unheard)
            .chain(verdict.heard)
            .min();
        if let Some(known) = known.filter(|known| known.state == LinkState::Silent)
            && matches!(verdict.state, LinkState::Up | LinkState::NoInternet)
            && !heard.is_some_and(|heard| known.is_broken_by(begun(Some(heard))))
        {
            (verdict.state, verdict.reason) = (LinkState::Silent, known.reason.clone());
        }
        let since = match known {
            Some(known) if known.state == verdict.state => known.since,
            // This was the state when the daemon started.
            None if verdict.state != LinkState::Silent && !self.links.contains_key(&link.name) => {
                None
            }
            _ if verdict.state == LinkState::Silent => Some(begun(verdict.heard)),
            _ => Some(now),
        };
        link.state = verdict.state;
        link.reason = verdict.reason;
        link.since_unix_ms = since;
        link.state_age = since.map(|at| Duration::from_millis(now.saturating_sub(at)));
        let known = KnownLink {
            state: link.state,
            reason: link.reason.clone(),
            since,
            addresses: link.addresses.clone(),
        };
        self.links.insert(link.name.clone(), known);
    }

    fn settle_session(&mut self, now: u64, session: &mut SessionStatus) {
        let silent = session.paths.iter().filter_map(|path| path.silent).min();
        let is_silent = silent.is_some_and(|silent| silent >= LEAST_SILENCE)
            && !session.paths.iter().any(|path| path.state == PathState::Up);
        if session.state == SessionState::Established && is_silent {
            session.state = SessionState::Interrupted;
        }
        if session.state != SessionState::Interrupted {
            self.sessions.remove(&session.id);
            return;
        }
        let begun = now.saturating_sub(silent.map_or(0, milliseconds));
        let since = *self.sessions.entry(session.id.clone()).or_insert(begun);
        session.since_unix_ms = Some(since);
        let reasons = session.paths.iter().map(|path| {
            let why = path.reason.as_deref().unwrap_or("no connection");
            format!("{}: {why}", path.link)
        });
        session.reason = Some(if session.paths.is_empty() {
            "no link is up that may be used".to_owned()
        } else {
            reasons.collect::<Vec<_>>().join("; ")
        });
    }
}

impl KnownGateway {
    fn settle(&mut self, now: u64, gateway: &mut GatewayStatus, session: &SessionStatus) {
        gateway.is_up = session.state == SessionState::Established;
        if matches!(
            session.state,
            SessionState::Established | SessionState::Closing
        ) {
            *self = Self {
                missed_since: None,
                was_reached: true,
            };
            return;
        }
        let since = *self
            .missed_since
            .get_or_insert(session.since_unix_ms.unwrap_or(now));
        // The first connection takes a moment, so its absence is no news yet.
        let waited = Duration::from_millis(now.saturating_sub(since));
        if self.was_reached || waited >= GATEWAY_PATIENCE {
            gateway.unreachable_since_unix_ms = Some(since);
            let reason = session.reason.as_deref().unwrap_or("it does not answer");
            gateway.reason = Some(reason.to_owned());
        }
    }
}

/// Returns the state of a link: `link.state` is the kernel's state, `sessions` are those over links
/// of this machine, and `placing` is about connections over this link.
fn judge(
    link: &LinkStatus,
    sessions: &[SessionStatus],
    placing: Option<&PlacingStatus>,
) -> Verdict {
    let by_connections = placing.and_then(|placing| placing.unheard);
    let verdict = |state, reason: Option<&str>| Verdict {
        state,
        reason: reason.map(str::to_owned),
        heard: by_connections,
    };
    if matches!(link.state, LinkState::Down | LinkState::Unused) {
        return verdict(link.state, link.reason.as_deref());
    }
    let paths = || paths_of(link, sessions);
    let heard = paths().filter_map(|path| path.unheard);
    let heard = heard.chain(by_connections).min();
    let telling = sessions.iter().filter(|session| tells_of_links(session));
    let of_paths = telling
        .flat_map(|session| &session.paths)
        .filter(|path| path.index == link.index && path.state != PathState::Up)
        .filter_map(|path| Some((path.silent?, NO_ANSWER)));
    let of_connections = placing.filter(|placing| placing.state == "suspect");
    let of_connections = of_connections.and_then(|it| Some((it.silent?, UNANSWERED)));
    let overdue = of_paths
        .chain(of_connections)
        .filter(|(silent, _)| *silent >= LEAST_SILENCE)
        .filter(|(silent, _)| heard.is_none_or(|heard| *silent <= heard));
    if let Some((silent, reason)) = overdue.min() {
        return Verdict {
            heard: Some(silent),
            ..verdict(LinkState::Silent, Some(reason))
        };
    }
    let is_alive = paths().any(|path| path.state == PathState::Up);
    let portal = placing.filter(|placing| placing.state == "portal");
    let portal = portal.map(|_| PORTAL);
    if portal.is_some() && !is_alive {
        return verdict(LinkState::NoInternet, portal);
    }
    let dead = paths().find(|path| path.state == PathState::Dead);
    let dead = dead.and_then(|path| path.reason.as_deref());
    let fading = link.signal.and_then(|signal| signal.warning());
    if is_alive {
        // A path that data is kept off.
        let lesser = paths().find(|path| {
            let standing = path.standing;
            matches!(standing, PathStanding::Excluded | PathStanding::Probing)
        });
        let lesser = lesser.and_then(|path| path.reason.as_deref());
        return verdict(LinkState::Up, portal.or(fading.as_deref()).or(lesser));
    }
    let heard_lately = by_connections.filter(|heard| *heard < LATELY);
    if dead.is_some() && heard_lately.is_none() && is_reached_otherwise(link, sessions) {
        return verdict(LinkState::NoInternet, dead);
    }
    let reason = link.reason.as_deref().or(fading.as_deref()).or(dead);
    verdict(link.state, reason)
}

/// True if silence in a session is evidence about links. A peer that answers over no link is gone
/// itself, and so is the process of a gateway that another process has replaced.
fn tells_of_links(session: &SessionStatus) -> bool {
    let mut paths = session.paths.iter();
    (session.is_with_gateway && !session.is_left) || paths.any(|path| path.state == PathState::Up)
}

/// True if a session answers over other links and has no connection over this one.
fn is_reached_otherwise(link: &LinkStatus, sessions: &[SessionStatus]) -> bool {
    let is_up = |path: &PathStatus| path.state == PathState::Up;
    let has_dead = |session: &&SessionStatus| {
        let mut own = session.paths.iter().filter(|it| it.index == link.index);
        own.any(|path| path.state == PathState::Dead)
    };
    let mut having = sessions.iter().filter(has_dead);
    having.any(|session| session.paths.iter().any(is_up))
}

fn paths_of<'a>(
    link: &LinkStatus,
    sessions: &'a [SessionStatus],
) -> impl Iterator<Item = &'a PathStatus> {
    let index = link.index;
    let paths = sessions.iter().flat_map(|session| &session.paths);
    paths.filter(move |path| path.index == index)
}

fn placing<'a>(
    connections: Option<&'a ConnectionsStatus>,
    link: &LinkStatus,
) -> Option<&'a PlacingStatus> {
    let mut links = connections.map_or(&[][..], |it| &it.links).iter();
    links.find(|placing| placing.index == link.index)
}

fn milliseconds(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// The data path avoids a link sooner. A shorter silence is not reported: cellular links are silent
/// for as long without any fault.
const LEAST_SILENCE: Duration = Duration::from_millis(400);
/// Same delay as that of the log.
const GATEWAY_PATIENCE: Duration = Duration::from_secs(3);
/// Signs of life of connections within this time show that the gateway is at fault, not the link.
const LATELY: Duration = Duration::from_secs(30);
const NO_ANSWER: &str = "no answer to what was sent over it";
const UNANSWERED: &str = "connections over it are not answered where others are";
const PORTAL: &str = "another host answers in the name of destinations: a captive portal";

#[cfg(test)]
mod tests;
