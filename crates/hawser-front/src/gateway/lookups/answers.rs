//! A cache of answers for a short time.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use tokio::time::Instant;

use crate::destination::HostName;
use crate::transport::DialError;

pub(super) type Answer = Result<Vec<IpAddr>, DialError>;

/// Answers to lookups, until they expire. Their number is bounded: the answer that would expire
/// first is evicted.
#[derive(Debug, Default)]
pub(super) struct Answers {
    known: BTreeMap<HostName, (Instant, Answer)>,
    /// The same answers by time of expiry.
    by_end: BTreeSet<(Instant, HostName)>,
}

impl Answers {
    /// Remembers addresses, and that a name does not exist. A resolver that does not answer says
    /// nothing about the name.
    pub(super) fn note(&mut self, name: &HostName, answer: &Answer, now: Instant) {
        let kept = match answer {
            Ok(_) => FOUND_KEPT,
            Err(DialError::NameNotFound) => NOT_FOUND_KEPT,
            Err(_) => return,
        };
        self.remove(name);
        if self.known.len() >= MAX_KNOWN
            && let Some((_, oldest)) = self.by_end.pop_first()
        {
            self.known.remove(&oldest);
        }
        let end = now + kept;
        self.known.insert(name.clone(), (end, answer.clone()));
        self.by_end.insert((end, name.clone()));
    }

    pub(super) fn recall(&mut self, name: &HostName, now: Instant) -> Option<Answer> {
        let (end, answer) = self.known.get(name)?;
        if now < *end {
            return Some(answer.clone());
        }
        self.remove(name);
        None
    }

    fn remove(&mut self, name: &HostName) {
        if let Some((end, _)) = self.known.remove(name) {
            self.by_end.remove(&(end, name.clone()));
        }
    }
}

/// The system does not report a time to live. This one is common for names whose addresses change
/// within seconds.
const FOUND_KEPT: Duration = Duration::from_secs(30);
/// Short, so that a new name is found soon.
const NOT_FOUND_KEPT: Duration = Duration::from_secs(5);
/// Most answers, of up to 1 kB each.
const MAX_KNOWN: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> HostName {
        text.parse().unwrap()
    }

    #[test]
    fn answers_serve_for_a_moment_and_failures_of_the_resolver_never() {
        let mut answers = Answers::default();
        let (now, name) = (Instant::now(), name("example.org"));
        let found = Ok(vec!["192.0.2.1".parse().unwrap()]);
        for (answer, kept) in [
            (found, FOUND_KEPT),
            (Err(DialError::NameNotFound), NOT_FOUND_KEPT),
        ] {
            answers.note(&name, &answer, now);
            let just_before = now + kept - Duration::from_millis(1);
            assert_eq!(answers.recall(&name, just_before), Some(answer));
            assert_eq!(answers.recall(&name, now + kept), None);
        }
        answers.note(&name, &Err(DialError::ResolverUnavailable), now);
        assert_eq!(answers.recall(&name, now), None);
        assert!(answers.known.is_empty() && answers.by_end.is_empty());
    }

    #[test]
    fn names_without_end_take_no_more_room() {
        let mut answers = Answers::default();
        let now = Instant::now();
        for number in 0..MAX_KNOWN + 100 {
            let at = now + Duration::from_micros(number as u64);
            let answer = match number % 2 {
                0 => Err(DialError::NameNotFound),
                _ => Ok(Vec::new()),
            };
            answers.note(&name(&format!("n{}.example", number % 4500)), &answer, at);
            assert!(answers.known.len() <= MAX_KNOWN);
            assert_eq!(answers.known.len(), answers.by_end.len());
        }
    }
}
