//! Recordings of sessions, sent in pieces.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hawser_control::{ErrorReason, Response, Role};
use hawser_sched::chunk::ChunkPolicy;
use hawser_session::Side;
use hawser_session::recorder::{Head, Recording};
use hawser_types::{Instant, LinkIndex, StreamId};

use super::clock::{milliseconds, since_1970};
use super::picture;
use super::shown::{MAX_STREAMS, Most};
use super::state::State;
use super::subject::View;
use super::why::off;

/// The recording that a control connection has requested, kept until all of it is fetched.
#[derive(Default)]
pub(super) struct Copy(Vec<u8>);

impl Copy {
    /// Returns the piece at `offset`. At offset 0, takes a new recording.
    pub(super) fn answer(
        &mut self,
        state: &State,
        session: Option<&str>,
        destinations: bool,
        offset: u64,
    ) -> Response {
        if offset == 0 {
            match take(state, session, destinations) {
                Ok(recording) => self.0 = recording.to_bytes(),
                Err(response) => return response,
            }
        }
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = self.0.get(offset..).unwrap_or_default();
        let (piece, left) = rest.split_at(rest.len().min(PIECE));
        let response = Response::Recording {
            piece: STANDARD.encode(piece),
            left_bytes: left.len() as u64,
        };
        if left.is_empty() {
            self.0 = Vec::new();
        }
        response
    }
}

fn take(state: &State, session: Option<&str>, destinations: bool) -> Result<Recording, Response> {
    let refused = |message: &str| Response::Error {
        reason: ErrorReason::NotFound,
        message: message.to_owned(),
    };
    let subject = state.subject();
    let views = subject.map(|subject| match session {
        Some(name) => subject.sessions(&|id| id == name, MAX_STREAMS),
        None => state.views(subject, MOST),
    });
    let mut views = views.unwrap_or_default();
    views.retain(|view| view.session.is_some());
    let (Some(subject), [view]) = (subject, &views[..]) else {
        return Err(match views.len() {
            0 => refused("there is no such session; `hawser status` lists them"),
            _ => refused("there are several sessions: name one with --session"),
        });
    };
    let mut recording = None;
    let known = subject.recorder(&view.id, &mut |recorder, now| {
        let head = head(state.role(), view, destinations, now);
        recording = recorder.is_on().then(|| recorder.recording(head));
    });
    match recording {
        Some(recording) => Ok(recording),
        None if known => Err(off()),
        None => Err(refused("the session has ended")),
    }
}

fn head(role: Role, view: &View, destinations: bool, now: Instant) -> Head {
    let named = view.paths.iter().filter(|(_, way)| !way.link.is_empty());
    let links = named.map(|(index, way)| (LinkIndex::new(*index), way.link.clone()));
    let streams = view.session.iter().flat_map(|session| &session.streams);
    let destination = |stream: &hawser_session::StreamSnapshot| -> Option<(StreamId, String)> {
        Some((stream.id, picture::destination(&stream.metadata)?))
    };
    Head {
        side: match role {
            Role::Client | Role::Sender => Side::Client,
            _ => Side::Gateway,
        },
        policy: view.scheduler.parse().unwrap_or(ChunkPolicy::Auto),
        began: Instant::ZERO,
        taken: now,
        taken_unix_ms: milliseconds(since_1970()),
        is_whole: true,
        links: links.collect(),
        destinations: if destinations {
            streams.filter_map(destination).collect()
        } else {
            Vec::new()
        },
    }
}

/// Limits for the look-up: two sessions are enough to tell whether there is more than one.
const MOST: Most = Most {
    sessions: 2,
    streams: MAX_STREAMS,
};
/// Bytes of a piece; in base64 it fits in a line of the control API.
const PIECE: usize = 512 * 1024;
