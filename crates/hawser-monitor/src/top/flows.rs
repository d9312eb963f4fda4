//! Traffic of applications: streams and flows of packets of sessions, and connections over one link
//! each.

use std::cmp::Reverse;
use std::time::Duration;

use hawser_control::{
    PacketFlowStatus, PathStanding, PathState, PlacedConnection, SessionStatus, StreamStatus,
};
use hawser_types::{ByteCount, Rate, StreamId};

use super::filter::contains;
use super::seen::LatestAnswers;

/// Identity of a stream, a connection or a flow of packets.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum FlowKey {
    Stream {
        session: String,
        id: StreamId,
    },
    Connection(u64),
    Packets {
        session: String,
        protocol: String,
        ends: [String; 2],
    },
}

/// A stream, a connection or a flow of packets.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) key: FlowKey,
    pub(super) program: Option<String>,
    pub(super) destination: String,
    /// The link or links that it uses.
    pub(super) over: String,
    /// Reason why it uses them.
    pub(super) why: String,
    pub(super) rate: Rate,
    pub(super) moved: ByteCount,
    pub(super) age: Duration,
    /// True if it has ended.
    pub(super) is_over: bool,
    /// State of the flow, unless it is simply open.
    pub(super) state: Option<String>,
}

/// Order of the list.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Order {
    #[default]
    Rate,
    Moved,
    Age,
    Program,
    Destination,
}

impl Order {
    pub(super) fn next(self) -> Self {
        match self {
            Self::Rate => Self::Moved,
            Self::Moved => Self::Age,
            Self::Age => Self::Program,
            Self::Program => Self::Destination,
            Self::Destination => Self::Rate,
        }
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Moved => "moved",
            Self::Age => "age",
            Self::Program => "program",
            Self::Destination => "destination",
        }
    }
}

/// Returns all flows in this order, including recently ended ones, which come last.
pub(super) fn flows(seen: &LatestAnswers, order: Order, filter: &str) -> Vec<Flow> {
    let sessions = seen.status.iter().flat_map(|status| &status.sessions);
    let streams = sessions.flat_map(|session| {
        let over = transports(session);
        let flow = move |it: &StreamStatus| of_stream(session, it, &over);
        let streams = session.streams.iter().map(flow);
        let packets = session.packet_flows.iter();
        let packets = packets.map(|it| of_packets(session, it));
        streams.chain(packets).collect::<Vec<_>>()
    });
    let by_themselves = seen.placed.iter().filter(|it| !it.is_streamed());
    let mut flows: Vec<Flow> = streams.chain(by_themselves.map(of_connection)).collect();
    flows.retain(|flow| {
        let program = flow.program.as_deref().unwrap_or_default();
        let texts = [program, &flow.destination, &flow.over];
        texts.iter().any(|text| contains(text, filter))
    });
    match order {
        Order::Rate => flows.sort_by_key(|flow| Reverse(flow.rate)),
        Order::Moved => flows.sort_by_key(|flow| Reverse(flow.moved)),
        Order::Age => flows.sort_by_key(|flow| flow.age),
        Order::Program => flows.sort_by(|a, b| a.program.cmp(&b.program)),
        Order::Destination => flows.sort_by(|a, b| a.destination.cmp(&b.destination)),
    }
    flows.sort_by_key(|flow| flow.is_over);
    flows
}

/// Returns the links that carry a session's chunks.
fn transports(session: &SessionStatus) -> String {
    let carries = |state, standing| state == PathState::Up && standing != PathStanding::Excluded;
    let mut links: Vec<&str> = Vec::new();
    for path in &session.paths {
        if carries(path.state, path.standing) && !links.contains(&path.link.as_str()) {
            links.push(&path.link);
        }
    }
    if links.is_empty() {
        "(none)".to_owned()
    } else {
        links.join("+")
    }
}

fn of_stream(session: &SessionStatus, stream: &StreamStatus, over: &str) -> Flow {
    let (session_id, id) = (session.id.clone(), stream.id);
    Flow {
        key: FlowKey::Stream {
            session: session_id,
            id,
        },
        program: stream.program.clone(),
        destination: stream
            .destination
            .clone()
            .unwrap_or_else(|| session.peer.clone()),
        over: over.to_owned(),
        why: format!("by {}", session.scheduler),
        rate: stream.rate,
        moved: stream.bytes_sent + stream.bytes_received,
        age: stream.age,
        is_over: false,
        state: None,
    }
}

fn of_packets(session: &SessionStatus, flow: &PacketFlowStatus) -> Flow {
    let protocol = flow.protocol.clone();
    Flow {
        destination: format!("{} ({protocol} packets)", flow.to()),
        key: FlowKey::Packets {
            session: session.id.clone(),
            protocol,
            ends: [flow.source.clone(), flow.destination.clone()],
        },
        program: None,
        over: flow.over(),
        why: flow.placed.to_string(),
        rate: flow.rate,
        moved: flow.moved(),
        age: flow.age,
        is_over: false,
        state: None,
    }
}

fn of_connection(one: &PlacedConnection) -> Flow {
    let is_over = one.is_over();
    Flow {
        key: FlowKey::Connection(one.id),
        program: one.program.clone(),
        destination: one.destination.clone(),
        over: one.over(),
        why: one.why.clone(),
        rate: if is_over { Rate::ZERO } else { one.rate },
        moved: one.bytes_sent + one.bytes_received,
        age: one.lasted.unwrap_or_default(),
        is_over,
        state: (one.state != "open").then(|| one.state.clone()),
    }
}
