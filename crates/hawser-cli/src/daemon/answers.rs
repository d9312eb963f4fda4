//! What a daemon answers at once.

use hawser_control::{ErrorReason, Request, Response, StatusSnapshot};

use super::{MAX_STREAMS, Shared, Subject, picture, steer, why};
use crate::placed::Which;

impl Shared {
    /// The answer to a request. Never waits, but for the disk where something is to be saved: events are
    /// those that there are, and what takes a conversation, or ends the daemon, is for the control socket.
    pub(crate) fn answer(&self, request: &Request) -> Response {
        match request {
            Request::Status => Response::Status(Box::new(self.status())),
            Request::Why {
                connection: Some(number),
                ..
            } => why::answer_placed(self, Which::One(*number)),
            Request::Why {
                connections: Some(count),
                ..
            } => {
                let count = usize::try_from(*count).unwrap_or(usize::MAX);
                why::answer_placed(self, Which::Latest(count.min(MAX_PLACED)))
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
            | Request::SetProfile { .. }
            | Request::AddRule { .. }
            | Request::RemoveRule { .. } => {
                let response = steer::change(self, request);
                self.notice();
                response
            }
            Request::Stop | Request::Recording { .. } => Response::Error {
                reason: ErrorReason::Forbidden,
                message: "this is for the control socket only".to_owned(),
            },
            _ => unsupported(
                "invites and peers are in the state directory's files: `hawser invite` and \
                 `hawser peers` work on them",
            ),
        }
    }

    /// What the daemon is doing.
    fn status(&self) -> StatusSnapshot {
        let subject = self.subject.get();
        let seen = subject.map(|subject| self.picture(&**subject, MAX_STREAMS));
        let seen = seen.unwrap_or_default();
        StatusSnapshot {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            role: self.role,
            process_id: std::process::id(),
            uptime: self.started.elapsed(),
            listen: self.listen.get().copied().into_iter().collect(),
            web: self.web.get().copied(),
            counters: subject
                .map(|subject| subject.counters())
                .unwrap_or_default(),
            memory: picture::memory(&seen.sessions),
            ..seen
        }
    }

    /// Links, connections, and sessions with at most `max_streams` of their streams.
    pub(super) fn picture(&self, subject: &dyn Subject, max_streams: usize) -> StatusSnapshot {
        let views = subject.sessions(max_streams);
        let connections = subject.connections();
        let mut links = subject.links();
        let now = tokio::time::Instant::now();
        let record = self.record();
        record.links.fill(&mut links, connections.as_ref());
        let sessions = views.into_iter();
        let sessions = sessions.map(|view| picture::session(view, &record.sessions, now));
        let sessions: Vec<_> = sessions.collect();
        StatusSnapshot {
            links,
            connections,
            session_count: sessions.len() as u64,
            sessions,
            ..StatusSnapshot::default()
        }
    }
}

pub(super) fn unsupported(message: &str) -> Response {
    Response::Error {
        reason: ErrorReason::Unsupported,
        message: message.to_owned(),
    }
}

/// Connections in one answer.
const MAX_PLACED: usize = 256;
