//! Converts the records of sessions to the reasons that are shown.

use std::time::Duration;

use hawser_control::{
    ErrorReason, Response, Role, WhyCount, WhyEvent, WhyLater, WhyLink, WhyReport, WhySession,
    WhySpan, WhyStream,
};
use hawser_session::PacketFlow;
use hawser_session::recorder::{LinkSummary, Note, Recorder, Summary, Verdict};
use hawser_types::{ChannelId, Instant, LinkIndex, StreamId};
use hawser_wire::ChannelRole;

use super::clock::{milliseconds, since_1970};
use super::shown::{MAX_STREAMS, Most};
use super::state::State;
use super::subject::View;
use super::{packet_flows, picture};
use crate::subject::PlacedRange;

/// Returns the reasons why links were used or not, for the session with this name or for all, and
/// for one stream or for all together.
pub(super) fn answer(state: &State, session: Option<&str>, stream: Option<StreamId>) -> Response {
    let Some(subject) = state.subject() else {
        return Response::Why(Box::new(report(state.role(), Vec::new())));
    };
    let is_all = session.is_none() && stream.is_none();
    let placed = is_all.then(|| subject.placed(PlacedRange::Latest(LATEST)));
    let views = match (session, stream) {
        (Some(name), _) => subject.sessions(&|id| id == name, MAX_STREAMS),
        (None, None) => state.views(subject, MOST),
        // Any session may have the stream.
        (None, Some(_)) => state.all_views(subject),
    };
    let has_begun = |view: &&View| view.session.is_some();
    if let (Some(name), None) = (session, views.iter().find(has_begun)) {
        return not_found(format!(
            "no session is named {name}; `hawser status` lists them"
        ));
    }
    let unlisted = match session {
        None => subject.session_count().saturating_sub(views.len()),
        Some(_) => 0,
    };
    let mut sessions = Vec::new();
    for view in views.iter().filter(has_begun) {
        let mut found = None;
        let known = subject.recorder(&view.id, &mut |recorder, now| {
            found = recorder.is_on().then(|| (recorder.summary(stream), now));
        });
        match found {
            None if known => return off(),
            // The session has ended meanwhile, or knows no such stream.
            None | Some((None, _)) => {}
            Some((Some(summary), now)) => sessions.push(told(view, &summary, now, stream)),
        }
    }
    if let (true, Some(stream)) = (sessions.is_empty(), stream) {
        return not_found(format!(
            "nothing was sent on {stream}, or too long ago; `hawser why` lists the known streams"
        ));
    }
    Response::Why(Box::new(WhyReport {
        placed: placed.flatten(),
        session_count: (sessions.len() + unlisted) as u64,
        ..report(state.role(), sessions)
    }))
}

/// Returns the links of connections that were placed individually, with the reasons.
pub(super) fn answer_placed(state: &State, which: PlacedRange) -> Response {
    let placed = state.subject().and_then(|it| it.placed(which));
    let Some(placed) = placed else {
        return Response::Error {
            reason: ErrorReason::Unsupported,
            message: "this daemon places no connections by themselves: everything goes over its \
                      sessions"
                .to_owned(),
        };
    };
    match (which, placed.connections.is_empty()) {
        (PlacedRange::One(number), true) => not_found(format!(
            "no connection {number} is remembered; the latest is {}",
            placed.latest_id
        )),
        _ => Response::Why(Box::new(WhyReport {
            placed: Some(placed),
            ..report(state.role(), Vec::new())
        })),
    }
}

fn report(role: Role, mut sessions: Vec<WhySession>) -> WhyReport {
    let session_count = sessions.len() as u64;
    sessions.truncate(MOST.sessions);
    WhyReport {
        role,
        sessions,
        session_count,
        placed: None,
    }
}

fn not_found(message: String) -> Response {
    Response::Error {
        reason: ErrorReason::NotFound,
        message,
    }
}

/// Returns the answer if nothing is recorded.
pub(super) fn off() -> Response {
    Response::Error {
        reason: ErrorReason::Unsupported,
        message:
            "nothing is recorded: the configuration gives the recorder no memory, or a gateway \
                  has too little for each session"
                .to_owned(),
    }
}

fn told(view: &View, summary: &Summary, now: Instant, stream: Option<StreamId>) -> WhySession {
    let session = view.session.as_ref();
    let live = session.map_or(&[][..], |session| &session.streams);
    let destination = |id: StreamId| {
        let live = live.iter().find(|stream| stream.id == id)?;
        picture::destination(&live.metadata)
    };
    let received = |id: StreamId| {
        live.iter()
            .filter(move |it| it.id == id)
            .map(|it| it.received)
    };
    let bytes_received = match stream {
        Some(id) => received(id).next().unwrap_or_default(),
        None => {
            let channels = session.map_or(&[][..], |session| &session.channels);
            channels.iter().map(|channel| channel.received).sum()
        }
    };
    let listed = summary.streams.iter().filter(|_| stream.is_none());
    let streams = listed.map(|(id, sent)| WhyStream {
        id: *id,
        destination: destination(*id),
        bytes_sent: *sent,
    });
    let sent: u64 = summary.links.iter().map(|link| link.bytes.as_u64()).sum();
    let links = summary.links.iter();
    WhySession {
        id: view.id.clone(),
        peer: view.peer.clone(),
        is_left: view.is_left,
        scheduler: view.scheduler.to_owned(),
        age: now.since(summary.began),
        stream,
        destination: stream.and_then(destination),
        bytes_received,
        links: links.map(|it| link(it, view, sent)).collect(),
        streams: streams.collect(),
        packet_flows: match stream {
            Some(_) => Vec::new(),
            None => {
                let flows = view.session.iter().flat_map(|session| &session.flows);
                packet_flows::with_reasons(flows, view, MOST_FLOWS)
            }
        },
        events: events(view, summary, now),
        received: None,
    }
}

/// Returns a session's reasons for its far end: links by their numbers, which the client assigns,
/// and lists limited to the largest entries. `None` for a stream on which nothing was sent.
///
/// `flows`: the session's flows of packets, unless the request is about one stream.
pub(crate) fn for_far_end(
    (recorder, now): (&Recorder, Instant),
    scheduler: &'static str,
    (stream, flows): (Option<StreamId>, &[PacketFlow]),
) -> Option<WhySession> {
    let summary = recorder
        .is_on()
        .then(|| recorder.summary(stream))
        .flatten()?;
    let view = View {
        scheduler,
        ..View::default()
    };
    let mut told = told(&view, &summary, now, stream);
    let by_bytes = |link: &WhyLink| std::cmp::Reverse(link.bytes_sent);
    told.links.sort_by_key(by_bytes);
    told.links.truncate(MOST_FOR_FAR_END.links);
    told.streams
        .sort_by_key(|it| std::cmp::Reverse(it.bytes_sent));
    told.streams.truncate(MOST_FOR_FAR_END.streams);
    told.packet_flows = packet_flows::with_reasons(flows, &view, MOST_FOR_FAR_END.flows);
    let excess = told.events.len().saturating_sub(MOST_FOR_FAR_END.events);
    told.events.drain(..excess);
    Some(told)
}

fn link(link: &LinkSummary, view: &View, sent: u64) -> WhyLink {
    let count = |why: &str, meaning: &str, chunks: u64| WhyCount {
        why: why.to_owned(),
        meaning: meaning.to_owned(),
        chunks,
    };
    let chosen = link.chosen.iter();
    let passed_over = link.verdicts.iter();
    let held_back = link.held.iter().map(|(reason, span)| WhySpan {
        why: reason.name().to_owned(),
        meaning: reason.meaning().to_owned(),
        span: *span,
    });
    WhyLink {
        link: view.link_name(link.link),
        index: link.link,
        bytes_sent: link.bytes,
        bytes_associated: link.associated,
        share: match sent {
            0 => 0.0,
            _ => link.bytes.as_u64() as f64 / sent as f64,
        },
        bytes_copied: link.copied,
        chunks: link.decisions,
        chosen: chosen
            .map(|(reason, chunks)| count(reason.name(), reason.meaning(), *chunks))
            .collect(),
        passed_over: passed_over
            .filter(|(verdict, _)| *verdict != Verdict::Carried)
            .map(|(verdict, chunks)| count(verdict.name(), verdict.meaning(), *chunks))
            .collect(),
        held_back: held_back.collect(),
        later: link.later.map(|(here, there)| WhyLater { here, there }),
        channel_count: link.channels.into(),
        suspect_count: link.suspect.into(),
    }
}

fn events(view: &View, summary: &Summary, now: Instant) -> Vec<WhyEvent> {
    let unix = since_1970();
    let event = |(at, note): &(Instant, Note)| {
        Some(WhyEvent {
            at_unix_ms: milliseconds(unix.saturating_sub(now.since(*at))),
            ..of_note(note, view)?
        })
    };
    summary.notes.iter().filter_map(event).collect()
}

/// Returns the event without its time.
fn of_note(note: &Note, view: &View) -> Option<WhyEvent> {
    let about = |what: &str, link: LinkIndex, channel: Option<ChannelId>| WhyEvent {
        what: what.to_owned(),
        link: (link != LinkIndex::ALL).then(|| view.link_name(link)),
        channel,
        ..WhyEvent::default()
    };
    let with = |event: WhyEvent, chunks: Option<u64>, span: Duration| WhyEvent {
        chunks,
        span: (span > Duration::ZERO).then_some(span),
        ..event
    };
    Some(match *note {
        Note::Added {
            channel,
            link,
            role,
        } => {
            let role = match role {
                _ if link == LinkIndex::ALL => "association",
                ChannelRole::Bulk => "bulk",
                ChannelRole::Express => "express",
            };
            WhyEvent {
                detail: Some(role.to_owned()),
                ..about("added", link, Some(channel))
            }
        }
        Note::Lost {
            channel,
            link,
            chunks,
            silence,
        } => with(about("lost", link, Some(channel)), Some(chunks), silence),
        Note::Suspect {
            channel,
            link,
            chunks,
            silence,
        } => with(about("silent", link, Some(channel)), Some(chunks), silence),
        Note::Stalled {
            channel,
            link,
            chunks,
        } => with(
            about("stalled", link, Some(channel)),
            Some(chunks),
            Duration::ZERO,
        ),
        Note::Recovered {
            channel,
            link,
            after,
        } => with(about("recovered", link, Some(channel)), None, after),
        Note::Standing { link, standing } => WhyEvent {
            detail: Some(standing.meaning().to_owned()),
            ..about("standing", link, None)
        },
        Note::Policy(policy) => WhyEvent {
            what: "policy".to_owned(),
            detail: Some(policy.name().to_owned()),
            ..WhyEvent::default()
        },
        Note::Transport {
            transport, reason, ..
        } => WhyEvent {
            what: "transport".to_owned(),
            detail: Some(format!(
                "{}, since {}",
                transport.meaning(),
                reason.meaning()
            )),
            ..WhyEvent::default()
        },
        // Helped and Sample are too many to tell one by one.
        _ => return None,
    })
}

struct MostForFarEnd {
    links: usize,
    streams: usize,
    flows: usize,
    events: usize,
}

/// Limit of sessions in one answer.
const MOST: Most = Most {
    sessions: 8,
    streams: MAX_STREAMS,
};
/// Limits of an answer to the far end; a link takes some kilobytes.
const MOST_FOR_FAR_END: MostForFarEnd = MostForFarEnd {
    links: 8,
    streams: 64,
    flows: 8,
    events: 32,
};
/// Limit of flows of packets of each session.
const MOST_FLOWS: usize = 20;
/// Number of connections in an answer to a request without a number.
const LATEST: usize = 20;
