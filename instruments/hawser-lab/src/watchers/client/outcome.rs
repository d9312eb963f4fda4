//! The results of the clients.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The results of the clients.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::watchers) struct WatcherOutcome {
    /// Number of requests with each answer, such as `feed: 503`.
    pub(in crate::watchers) answers: BTreeMap<String, u64>,
    /// The most feeds that were open at once and not read.
    pub(in crate::watchers) most_feeds: usize,
    /// Bytes that were read.
    pub(in crate::watchers) bytes: u64,
    pub(in crate::watchers) seconds: f64,
    /// Processor time of those who looked.
    pub(in crate::watchers) cpu_seconds: f64,
}

impl WatcherOutcome {
    /// Takes note of an answer; nothing is one, too.
    pub(in crate::watchers) fn note(&mut self, what: &str, status: Option<u16>) {
        let status = status.map_or("none".to_owned(), |status| status.to_string());
        *self.answers.entry(format!("{what}: {status}")).or_default() += 1;
    }

    /// Returns the number of requests whose answer is for permitted clients only.
    pub(in crate::watchers) fn let_in(&self) -> u64 {
        let granted = |(what, _): &(&String, &u64)| what.ends_with(": 200");
        self.answers
            .iter()
            .filter(granted)
            .map(|(_, count)| count)
            .sum()
    }

    /// Returns the sum of both.
    pub(in crate::watchers) fn and(mut self, other: Self) -> Self {
        for (answer, count) in other.answers {
            *self.answers.entry(answer).or_default() += count;
        }
        Self {
            answers: self.answers,
            most_feeds: self.most_feeds.max(other.most_feeds),
            bytes: self.bytes + other.bytes,
            seconds: self.seconds + other.seconds,
            cpu_seconds: self.cpu_seconds + other.cpu_seconds,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_by_what_was_asked_and_answered() {
        let mut first = WatcherOutcome::default();
        first.note("feed", Some(200));
        first.note("feed", None);
        let mut second = first.clone();
        second.most_feeds = 3;
        second.note("feed", Some(503));
        let both = first.and(second);
        let counts: Vec<_> = both.answers.into_iter().collect();
        let counted = [("feed: 200", 2), ("feed: 503", 1), ("feed: none", 2)];
        assert_eq!(
            counts,
            counted.map(|(what, count)| (what.to_owned(), count))
        );
        assert_eq!(both.most_feeds, 3);
    }
}
