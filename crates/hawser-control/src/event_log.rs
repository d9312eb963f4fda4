use std::collections::VecDeque;

use crate::{Change, Event};

/// The latest events of a daemon, numbered, in bounded memory.
#[derive(Clone, Debug, Default)]
pub struct EventLog {
    events: VecDeque<Event>,
    latest: u64,
}

impl EventLog {
    /// Limit of remembered events.
    pub const MAX_EVENTS: usize = 1000;

    /// Adds a change that was noticed at this time, in milliseconds since 1970-01-01 00:00 UTC. A
    /// full log forgets its oldest event.
    pub fn note(&mut self, at_unix_ms: u64, what: Change) {
        self.latest += 1;
        if self.events.len() >= Self::MAX_EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(Event {
            id: self.latest,
            at_unix_ms,
            what,
        });
    }

    /// Returns the number of the latest event; 0 before the first.
    pub const fn latest(&self) -> u64 {
        self.latest
    }

    /// Returns the events after the one with this number, the oldest first. If some of them are
    /// forgotten, a [`Change::Missed`] precedes the rest, with the number of the last forgotten
    /// one.
    pub fn after(&self, id: u64) -> Vec<Event> {
        let first = self.events.front();
        let missed = first.and_then(|first| {
            let before = first.id.saturating_sub(1);
            let count = before.checked_sub(id).filter(|count| *count > 0)?;
            Some(Event {
                id: before,
                at_unix_ms: first.at_unix_ms,
                what: Change::Missed { count },
            })
        });
        let later = self.events.iter().filter(|event| event.id > id).cloned();
        missed.into_iter().chain(later).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gone(number: u64) -> Change {
        Change::LinkGone {
            link: format!("link{number}"),
        }
    }

    #[test]
    fn events_are_told_once_and_in_their_order() {
        let mut log = EventLog::default();
        assert_eq!((log.latest(), log.after(0)), (0, Vec::new()));
        for number in 1..=3 {
            log.note(number * 10, gone(number));
        }
        let told = log.after(1);
        let ids: Vec<_> = told.iter().map(|it| (it.id, it.at_unix_ms)).collect();
        assert_eq!(ids, [(2, 20), (3, 30)]);
        assert_eq!(told[1].what, gone(3));
        // A reader may know a higher number than the latest, from an earlier daemon.
        assert_eq!((log.latest(), log.after(99)), (3, Vec::new()));
    }

    #[test]
    fn what_is_forgotten_is_counted() {
        let mut log = EventLog::default();
        let count = EventLog::MAX_EVENTS as u64 + 5;
        for number in 1..=count {
            log.note(number, gone(number));
        }
        let told = log.after(2);
        assert_eq!(told.len(), EventLog::MAX_EVENTS + 1);
        assert_eq!(told[0].what, Change::Missed { count: 3 });
        let ids: Vec<u64> = told.iter().map(|it| it.id).collect();
        assert_eq!(ids, (5..=count).collect::<Vec<u64>>());
        assert_eq!(log.after(5)[0].what, gone(6));
    }
}
