//! Links whose connections wait for their answer for too long.

use std::net::SocketAddr;
use std::sync::Arc;

use hawser_capture::{CaptureError, Handshake};
use hawser_net::links::Link;
use hawser_types::Instant;

use super::super::decision::{Candidate, Decision, Standing, Way, leads_to};
use super::super::trial::{self, Comparison};
use super::KernelPlaces;
use super::unanswered::Question;

impl KernelPlaces {
    /// Looks whether what waited is answered by now, and asks about links where answers are overdue.
    pub(super) fn look(&mut self) -> Result<(), CaptureError> {
        let now = self.director.now();
        self.look_at(self.unanswered.due(now), now)?;
        if self.questions(now).is_empty() {
            return Ok(());
        }
        // What came over the link last may tell of it.
        self.count()?;
        self.director.settle();
        // What can't be asked makes room for the next.
        for _ in 0..MAX_ROUNDS {
            let questions = self.questions(now);
            if questions.is_empty() {
                break;
            }
            for question in questions {
                self.ask(question, now);
            }
        }
        Ok(())
    }

    fn look_at(&mut self, cookies: Vec<u64>, now: Instant) -> Result<(), CaptureError> {
        for cookie in cookies {
            match self.capture.handshake(cookie)? {
                Handshake::NotBegun => self.unanswered.has_not_begun(cookie, now),
                Handshake::Unanswered(waited) => self.unanswered.still_waits(cookie, waited, now),
                Handshake::Over => self.unanswered.forget(cookie),
                Handshake::Answered { after, ago } => {
                    self.unanswered.forget(cookie);
                    if let Some(placed) = self.flows.get_mut(&cookie) {
                        placed.connected(now, after, ago);
                    }
                }
            }
        }
        Ok(())
    }

    fn questions(&self, now: Instant) -> Vec<Question> {
        let director = &self.director;
        self.unanswered.questions(
            now,
            |link| director.patience(link),
            |link, since| !director.was_heard_since(link, since),
        )
    }

    /// Asks for the place over the link and over others, in the background.
    fn ask(&mut self, question: Question, now: Instant) {
        let decision = self.director.decide_untold(&question.origin);
        self.try_again(&decision, question.remote);
        let Some((it, others)) = comparable(&decision, &question) else {
            return self.unanswered.pass_over(question.cookie, now);
        };
        self.unanswered.note_asked(question.link, now);
        tracing::debug!(
            link = it.link.name,
            "nothing comes over a link where it is due"
        );
        let (via, link, patience) = (Arc::clone(&self.via), Arc::clone(&it.link), it.patience);
        self.asking.spawn(async move {
            let asked = (&*link, patience);
            let found = trial::compare(&*via, asked, &others, question.remote).await;
            (question, found)
        });
    }

    /// Draws the conclusion from what was found.
    pub(super) fn conclude(
        &mut self,
        question: &Question,
        found: Comparison,
    ) -> Result<(), CaptureError> {
        let link = question.link;
        tracing::debug!(link = link.value(), ?found, "a link was asked");
        let now = self.director.now();
        self.unanswered.note_found(question, found, now);
        match found {
            Comparison::Answers(after) => self.director.handle_answer(link, Some(after)),
            Comparison::Silent { waited, by, after } => {
                self.director.handle_answer(by, Some(after));
                // Whatever has come over the link meanwhile is in its favour.
                self.catch_up();
                self.look_at(self.unanswered.on(link), self.director.now())?;
                self.count()?;
                self.director.settle();
                self.director.handle_silence(link, question.since, waited);
            }
            Comparison::Nothing => {}
        }
        Ok(())
    }

    /// Tries a suspect link that is due for it, beside a connection to `remote`.
    pub(super) fn try_again(&self, decision: &Decision, remote: SocketAddr) {
        let leads = |link: &&Arc<Link>| {
            decision.way(remote.ip()) == Way::Links && leads_to(link, remote.is_ipv6())
        };
        if let Some(link) = decision.trial.as_ref().filter(leads) {
            trial::try_again(&self.director, &self.via, Arc::clone(link), remote);
        }
    }
}

/// The link in question and those that it can be compared with; `None` where there are none, or
/// the connection may not take them.
fn comparable<'a>(
    decision: &'a Decision,
    question: &Question,
) -> Option<(&'a Candidate, Vec<Arc<Link>>)> {
    let address = question.remote.ip();
    if decision.way(address) != Way::Links {
        return None;
    }
    let is_it = |candidate: &&Candidate| candidate.link.index == question.link.value();
    let it = decision.candidates.iter().find(is_it)?;
    let others = decision
        .candidates
        .iter()
        .filter(|other| !is_it(other) && other.leads_to(address));
    let others: Vec<Arc<Link>> = others
        .take(MAX_OTHERS)
        .map(|other| Arc::clone(&other.link))
        .collect();
    (it.standing != Standing::Suspect && !others.is_empty()).then_some((it, others))
}

/// Connections that can't be asked about are passed over so many at a time, for each link.
const MAX_ROUNDS: usize = 8;
/// One that is answered is enough, but one that is asked may be dead as well.
const MAX_OTHERS: usize = 2;

#[cfg(test)]
mod tests {
    use hawser_types::LinkIndex;

    use super::super::super::Origin;
    use super::super::super::decision::tests::{candidate, decision, link};
    use super::*;

    /// The links that `a` is compared with.
    fn compared(candidates: &[(&str, Standing)]) -> Option<Vec<String>> {
        let question = Question {
            link: LinkIndex::new(link("a").index),
            cookie: 1,
            origin: Origin::default(),
            remote: "198.51.100.1:80".parse().unwrap(),
            since: Instant::ZERO,
        };
        let candidates = candidates.iter().map(|(name, it)| candidate(name, *it));
        let decision = decision(candidates.collect());
        let (it, others) = comparable(&decision, &question)?;
        assert_eq!(it.link.name, "a");
        Some(others.iter().map(|link| link.name.clone()).collect())
    }

    #[test]
    fn a_link_is_compared_with_two_others_that_the_connection_may_take() {
        let all = ["b", "a", "c", "d"].map(|name| (name, Standing::Equal));
        assert_eq!(compared(&all).unwrap(), ["b", "c"]);
        assert_eq!(compared(&[("a", Standing::Equal)]), None);
        assert_eq!(compared(&[("b", Standing::Equal)]), None);
        assert_eq!(compared(&[]), None);
        let suspect = [("b", Standing::Equal), ("a", Standing::Suspect)];
        assert_eq!(compared(&suspect), None, "that is known already");
    }
}
