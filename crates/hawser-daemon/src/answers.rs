//! Answers that need no waiting.

use std::time::Duration;

use hawser_control::{
    ConnectionsStatus, ErrorReason, LinkStatus, Request, Response, Role, SessionStatus,
    StatusSnapshot,
};
use hawser_types::StreamId;
use tokio::time::timeout;

use super::clock::{milliseconds, since_1970};
use super::dashboard::Dashboard;
use super::shown::Most;
use super::state::{Record, State};
use super::steer::unsupported;
use super::subject::{PlacedRange, Subject, View};
use super::{monitor, picture, steer, why};

impl State {
    /// Answers a request at once; only a change that is saved waits for the disk. A request for
    /// events gets the events so far. Refuses requests that take several answers or end the
    /// daemon: only the control socket serves them.
    pub(crate) fn answer(&self, request: &Request) -> Response {
        match request {
            Request::Status { .. } => Response::Status(Box::new(self.status(Most::asked(request)))),
            Request::Why {
                connection: Some(number),
                ..
            } => why::answer_placed(self, PlacedRange::One(*number)),
            Request::Why {
                connections: Some(count),
                ..
            } => {
                let count = usize::try_from(*count).unwrap_or(usize::MAX);
                why::answer_placed(self, PlacedRange::Latest(count.min(MAX_PLACED)))
            }
            Request::Why {
                session, stream, ..
            } => why::answer(self, session.as_deref(), *stream),
            Request::History { samples } => {
                let count = samples.map_or(usize::MAX, |count| {
                    usize::try_from(count).unwrap_or(usize::MAX)
                });
                Response::History(Box::new(self.record().history.report(count)))
            }
            Request::Events { after, .. } => self.events(*after),
            Request::Policy => steer::policy(self),
            Request::SetLink(_)
            | Request::SetScheduler { .. }
            | Request::SetGateway { .. }
            | Request::SetTransport { .. }
            | Request::SetProfile { .. }
            | Request::AddRule { .. }
            | Request::RemoveRule { .. } => {
                let response = steer::change(self, request);
                self.notice();
                response
            }
            Request::ReadToken => monitor::read_token(self),
            Request::Stop | Request::Upgrade { .. } | Request::Recording { .. } => {
                Response::Error {
                    reason: ErrorReason::Forbidden,
                    message: "only the control socket serves this request".to_owned(),
                }
            }
            _ => unsupported(
                "invites and peers are in the state directory's files: `hawser invite` and \
                 `hawser peers` work on them",
            ),
        }
    }

    /// Returns the daemon's state.
    fn status(&self, most: Most) -> StatusSnapshot {
        let subject = self.subject();
        let seen = subject.map(|subject| self.picture(subject, most));
        let seen = seen.unwrap_or_default();
        let counters = subject.map(|subject| subject.counters());
        let mut counters = counters.unwrap_or_default();
        let record = self.record();
        record.totals.list(&mut counters);
        let all_sessions = record.all_sessions.clone();
        drop(record);
        StatusSnapshot {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            role: self.role(),
            process_id: std::process::id(),
            uptime: self.uptime(),
            listen: self.listen().into_iter().collect(),
            web: self.dashboard().map(Dashboard::address),
            counters,
            kill_switch: subject.and_then(|subject| subject.kill_switch()),
            predecessor: self.predecessor(),
            directory: subject.and_then(|subject| subject.directory(MAX_BINDINGS)),
            memory: picture::memory(all_sessions.memory_bytes),
            all_sessions,
            ..seen
        }
    }

    /// Like [`State::answer`], but waits a moment for the names of programs that are still looked
    /// for.
    pub(super) async fn answer_named(&self, request: &Request) -> Response {
        let mut response = self.answer(request);
        let sought = self.subject().and_then(|subject| subject.sought());
        let sought = sought.filter(|sought| *sought.borrow() > 0);
        if let (Response::Status(status), Some(mut sought)) = (&mut response, sought) {
            // The next answer names programs that are found later.
            let _ = timeout(NAMES_PATIENCE, sought.wait_for(|count| *count == 0)).await;
            self.name_streams(&mut status.sessions);
        }
        response
    }

    /// Returns the links, connections, and sessions with their streams.
    pub(super) fn picture(&self, subject: &dyn Subject, most: Most) -> StatusSnapshot {
        let mut views = self.views(subject, most);
        let shown = views.len();
        if self.role() == Role::Client {
            // The states of a client's links depend on all sessions.
            self.add_others(subject, &mut views);
        }
        let mut links = subject.links();
        let connections = subject.connections();
        let mut record = self.record();
        record.links.fill(&mut links, connections.as_ref());
        let mut seen = self.settled(&mut record, subject, views, (links, connections));
        drop(record);
        seen.sessions.truncate(shown);
        self.name_streams(&mut seen.sessions);
        seen
    }

    /// Returns a snapshot with these sessions, links and connections, and the resulting states.
    pub(super) fn settled(
        &self,
        record: &mut Record,
        subject: &dyn Subject,
        views: Vec<View>,
        (links, connections): (Vec<LinkStatus>, Option<ConnectionsStatus>),
    ) -> StatusSnapshot {
        let now = tokio::time::Instant::now();
        let sessions = views.into_iter();
        let sessions = sessions.map(|view| picture::session(view, &record.sessions, now));
        let mut seen = StatusSnapshot {
            role: self.role(),
            links,
            connections,
            registration: subject.registration(),
            session_count: subject.session_count() as u64,
            sessions: sessions.collect(),
            ..StatusSnapshot::default()
        };
        record.states.settle(milliseconds(since_1970()), &mut seen);
        seen
    }

    /// Adds the names of the programs that opened the streams, as far as they are known by now.
    fn name_streams(&self, sessions: &mut [SessionStatus]) {
        let Some(subject) = self.subject() else {
            return;
        };
        for session in sessions.iter_mut().filter(|it| !it.streams.is_empty()) {
            let ids: Vec<StreamId> = session.streams.iter().map(|stream| stream.id).collect();
            let names = subject.programs(&session.id, &ids);
            for stream in &mut session.streams {
                stream.program = names.get(&stream.id).map(ToString::to_string);
            }
        }
    }
}

/// Longest wait for the names of programs; a scan of all processes takes a few milliseconds.
const NAMES_PATIENCE: Duration = Duration::from_millis(250);
/// Limit of connections in one answer.
const MAX_PLACED: usize = 256;
/// Limit of a directory's bindings in one answer.
const MAX_BINDINGS: usize = 100;
