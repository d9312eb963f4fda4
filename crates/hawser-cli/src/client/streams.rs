//! `hawser streams`: the open connections of programs, and the links that carry them.

use anyhow::bail;
use hawser_control::{
    PacketFlowStatus, PlacedConnection, PlacedReport, Request, Response, SessionStatus,
    StatusSnapshot, StreamStatus,
};
use hawser_text::render_streams;
use serde::Serialize;

use crate::args::TableArgs;
use crate::client::ask::{Conversation, OTHER_ANSWER, width};
use crate::client::status::status;
use hawser_daemon::setup::{Setup, show, show_json};

/// Lists the streams of sessions, and the connections that use one link each.
pub(crate) async fn run(setup: &Setup, args: TableArgs) -> anyhow::Result<()> {
    let mut conversation = Conversation::with_daemon(&setup.state).await?;
    let snapshot = status(&mut conversation, &Request::STATUS).await?;
    let placed = placed(&mut conversation, &snapshot).await?;
    if args.json {
        show_json(&Open::of(&snapshot, placed.as_ref()))
    } else {
        show(&render_streams(&snapshot, placed.as_ref(), width()))
    }
}

/// Returns the latest connections, if the daemon places connections on links.
async fn placed(
    conversation: &mut Conversation,
    snapshot: &StatusSnapshot,
) -> anyhow::Result<Option<PlacedReport>> {
    if snapshot.connections.is_none() {
        return Ok(None);
    }
    let request = Request::Why {
        session: None,
        stream: None,
        connection: None,
        // All that the daemon remembers.
        connections: Some(u64::MAX),
    };
    match conversation.ask(&request).await? {
        Response::Why(report) => Ok(report.placed),
        _ => bail!(OTHER_ANSWER),
    }
}

/// The open flows, as JSON.
#[derive(Serialize)]
struct Open<'a> {
    sessions: Vec<OfSession<'a>>,
    connections: Vec<&'a PlacedConnection>,
}

#[derive(Serialize)]
struct OfSession<'a> {
    id: &'a str,
    peer: &'a str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_left: bool,
    scheduler: &'a str,
    /// Links that carry the session's streams now.
    links: Vec<&'a str>,
    stream_count: u64,
    streams: &'a [StreamStatus],
    packet_flow_count: u64,
    packet_flows: &'a [PacketFlowStatus],
}

impl<'a> Open<'a> {
    fn of(snapshot: &'a StatusSnapshot, placed: Option<&'a PlacedReport>) -> Self {
        let of_session = |session: &'a SessionStatus| OfSession {
            id: &session.id,
            peer: &session.peer,
            is_left: session.is_left,
            scheduler: &session.scheduler,
            links: session.links(),
            stream_count: session.stream_count,
            streams: &session.streams,
            packet_flow_count: session.packet_flow_count,
            packet_flows: &session.packet_flows,
        };
        let connections = placed.into_iter().flat_map(|report| &report.connections);
        Self {
            sessions: snapshot.sessions.iter().map(of_session).collect(),
            connections: connections.filter(|one| one.is_open_by_itself()).collect(),
        }
    }
}
