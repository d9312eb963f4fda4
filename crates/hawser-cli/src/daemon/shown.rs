//! The part of a daemon's state that is shown, so that the cost follows what is shown and not what
//! exists.

use std::collections::BTreeSet;

use hawser_control::Request;

use super::state::State;
use super::subject::{Subject, View};

/// At most so much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Most {
    /// The busiest sessions.
    pub(super) sessions: usize,
    /// The latest streams of each of them.
    pub(super) streams: usize,
}

impl Most {
    /// The default amounts.
    pub(super) const DEFAULT: Self = Self {
        sessions: MAX_SESSIONS,
        streams: MAX_STREAMS,
    };

    /// All sessions, without their streams.
    pub(super) const SESSIONS: Self = Self {
        sessions: usize::MAX,
        streams: 0,
    };

    /// Returns the amounts that a request for the status asks for.
    pub(super) fn asked(request: &Request) -> Self {
        let Request::Status { sessions, streams } = request else {
            return Self::DEFAULT;
        };
        let count = |asked: Option<u64>, default| {
            asked.map_or(default, |count| {
                usize::try_from(count).unwrap_or(usize::MAX)
            })
        };
        Self {
            sessions: count(*sessions, Self::DEFAULT.sessions),
            streams: count(*streams, Self::DEFAULT.streams).min(MAX_STREAMS),
        }
    }
}

impl State {
    /// The busiest sessions, as many as are to be shown; with their latest streams, [`MAX_STREAMS`]
    /// at most in all of them together.
    pub(super) fn views(&self, subject: &dyn Subject, most: Most) -> Vec<View> {
        if most.sessions == 0 {
            return Vec::new();
        }
        let record = self.record();
        let is_enough = subject.session_count() <= most.sessions;
        let busiest = (!is_enough).then(|| record.sessions.busiest(most.sessions));
        let is_shown = |id: &str| busiest.as_ref().is_none_or(|ids| ids.contains(id));
        let share = fair_share(record.sessions.stream_counts(is_shown));
        drop(record);
        subject.sessions(&is_shown, most.streams.min(share))
    }

    /// Returns the sessions that are shown by default, and then all others without their streams.
    pub(super) fn all_views(&self, subject: &dyn Subject) -> Vec<View> {
        let mut views = self.views(subject, Most::DEFAULT);
        self.add_others(subject, &mut views);
        views
    }

    /// Adds the sessions that are missing, without their streams.
    pub(super) fn add_others(&self, subject: &dyn Subject, views: &mut Vec<View>) {
        if views.len() < subject.session_count() {
            let shown: BTreeSet<String> = views.iter().map(|view| view.id.clone()).collect();
            views.extend(subject.sessions(&|id| !shown.contains(id), 0));
        }
    }
}

/// Returns the number of streams that may be listed of each session, so that there are
/// [`MAX_STREAMS`] in all. Sessions with few streams leave room to the others.
fn fair_share(mut counts: Vec<usize>) -> usize {
    counts.sort_unstable();
    let mut left = MAX_STREAMS;
    for (place, count) in counts.iter().enumerate() {
        let share = left / (counts.len() - place);
        if *count > share {
            return share;
        }
        left -= count;
    }
    MAX_STREAMS
}

/// Listed where a request does not say how many.
const MAX_SESSIONS: usize = 64;
/// Listed of all sessions together.
pub(super) const MAX_STREAMS: usize = 500;

#[cfg(test)]
mod tests;
