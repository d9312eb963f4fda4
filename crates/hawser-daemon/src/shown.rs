//! Selects the part of a daemon's state that is shown, so that the cost depends on what is shown
//! and not on what exists.

use std::collections::BTreeSet;

use hawser_control::Request;

use super::state::State;
use super::subject::{Subject, View};

/// Limits of what is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Most {
    /// Number of sessions, the busiest ones.
    pub(super) sessions: usize,
    /// Number of streams of each session, the latest ones.
    pub(super) streams: usize,
}

impl Most {
    /// The default limits.
    pub(super) const DEFAULT: Self = Self {
        sessions: MAX_SESSIONS,
        streams: MAX_STREAMS,
    };

    /// All sessions, without their streams.
    pub(super) const SESSIONS: Self = Self {
        sessions: usize::MAX,
        streams: 0,
    };

    /// Returns the limits that a request for the status sets, or the defaults.
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
    /// Returns the busiest sessions up to the limit, with their latest streams, at most
    /// [`MAX_STREAMS`] in all sessions together.
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

/// Returns the number of streams to list for each session, so that there are at most
/// [`MAX_STREAMS`] in all. Sessions with few streams leave room for the others.
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

/// Number of listed sessions unless the request names another.
const MAX_SESSIONS: usize = 64;
/// Limit of listed streams of all sessions together.
pub(super) const MAX_STREAMS: usize = 500;

#[cfg(test)]
mod tests;
