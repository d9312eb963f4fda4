//! Views of the sessions that `hawser serve`, or a host that is known by name, has accepted.

use std::collections::BTreeMap;

use hawser_config::SessionConfig;
use hawser_net::gateway::Gateway;
use hawser_session::recorder::Recorder;
use hawser_types::{Instant, SessionId};

use crate::subject::{PathFacts, View};

/// Returns the sessions whose names are `wanted`, each with at most `max_streams` of its streams.
pub(crate) fn views(
    gateway: &Gateway,
    wanted: &dyn Fn(&str) -> bool,
    max_streams: usize,
    congestion: &str,
) -> Vec<View> {
    let is_wanted = |id: SessionId| wanted(&id.to_string());
    let sessions = gateway.sessions_among(is_wanted, max_streams).into_iter();
    let mut views: Vec<View> = sessions
        .map(|session| {
            let links = session.session.channels.iter().map(|it| it.link.value());
            // Only the first channel's address is known here.
            let way = |index| (index, PathFacts::default());
            let mut paths: BTreeMap<u32, PathFacts> = links.map(way).collect();
            if paths.len() == 1
                && let Some(way) = paths.values_mut().next()
            {
                way.remote = Some(session.remote);
            }
            View {
                id: session.id.to_string(),
                peer: session.peer.to_string(),
                paths,
                scheduler: session.session.scheduler.name(),
                congestion: congestion.to_owned(),
                addresses: session.addresses,
                session: Some(session.session),
                ..View::default()
            }
        })
        .collect();
    views.sort_by(|a, b| (&a.peer, &a.id).cmp(&(&b.peer, &b.id)));
    views
}

/// Returns the name of the congestion control that channels of sessions with this configuration
/// ask for.
pub(crate) fn congestion_name(config: &SessionConfig) -> String {
    let name = config.congestion.name();
    let name = name.or_else(hawser_link::bind::best_congestion);
    name.unwrap_or_default()
}

/// Calls `read` with the recorder of the session with this name; returns `false` if there is none.
pub(crate) fn read_recorder(
    gateway: &Gateway,
    session: &str,
    read: &mut dyn FnMut(&Recorder, Instant),
) -> bool {
    let mut ids = gateway.session_ids().into_iter();
    let id = ids.find(|id| id.to_string() == session);
    id.is_some_and(|id| gateway.recorder(id, read).is_some())
}
