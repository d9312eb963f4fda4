//! Tests links whose connections wait too long for their answer.

use std::net::SocketAddr;
use std::sync::Arc;

use hawser_capture::{CaptureError, Handshake};
use hawser_director::{AddressRoute, LinkDecision, leads_to};
use hawser_link::links::Link;
use hawser_types::Instant;

use super::super::trial::{self, Comparison};
use super::KernelPlaces;
use super::unanswered::Question;

impl KernelPlaces {
    /// Checks whether waiting connections have been answered, and tests links whose answers are
    /// overdue.
    pub(super) fn look(&mut self) -> Result<(), CaptureError> {
        let now = self.director.now();
        self.look_at(self.unanswered.due(now), now)?;
        if self.questions(now).is_empty() {
            return Ok(());
        }
        // Bytes that arrived over the link most recently may settle the question.
        self.count()?;
        self.director.settle();
        // A connection that can't serve for a test makes room for the next.
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
            |link| director.with(|director, _| director.patience(link)),
            |link, since| !director.with(|director, _| director.was_heard_since(link, since)),
        )
    }

    /// Connects to the destination over the link and over others, in the background.
    fn ask(&mut self, question: Question, now: Instant) {
        let decision = self.director.decide_untold(&question.request);
        self.try_again(&decision, question.remote);
        let address = question.remote.ip();
        let Some((it, others)) = decision.compared(question.link, address) else {
            return self.unanswered.pass_over(question.cookie, now);
        };
        self.unanswered.note_asked(question.link, now);
        tracing::debug!(link = it.link.name, "testing a link: an answer is overdue");
        let (via, link, patience) = (Arc::clone(&self.via), Arc::clone(&it.link), it.patience);
        self.asking.spawn(async move {
            let asked = (&*link, patience);
            let found = trial::compare(&*via, asked, &others, question.remote).await;
            (question, found)
        });
    }

    /// Draws the conclusion from a test.
    pub(super) fn conclude(
        &mut self,
        question: &Question,
        found: Comparison,
    ) -> Result<(), CaptureError> {
        let link = question.link;
        tracing::debug!(link = link.value(), ?found, "tested a link");
        let now = self.director.now();
        self.unanswered.note_found(question, found, now);
        match found {
            Comparison::Answers(after) => {
                self.director
                    .with(|director, now| director.handle_answer(now, link, Some(after)));
            }
            Comparison::Silent { waited, by, after } => {
                self.director
                    .with(|director, now| director.handle_answer(now, by, Some(after)));
                // Packets that have arrived over the link meanwhile show that the link works.
                self.catch_up();
                self.look_at(self.unanswered.on(link), self.director.now())?;
                self.count()?;
                self.director.settle();
                self.director.with(|director, now| {
                    director.handle_silence(now, link, question.since, waited);
                });
            }
            Comparison::Nothing => {}
        }
        Ok(())
    }

    /// Retries a suspect link that is due for it, with a trial connection to `remote`.
    pub(super) fn try_again(&self, decision: &LinkDecision, remote: SocketAddr) {
        let leads = |link: &&Arc<Link>| {
            decision.route(remote.ip()) == AddressRoute::Links && leads_to(link, remote.is_ipv6())
        };
        if let Some(link) = decision.trial.as_ref().filter(leads) {
            trial::try_again(&self.director, &self.via, Arc::clone(link), remote);
        }
    }
}

/// Most connections of each link that one look passes over because they can't serve for a test.
const MAX_ROUNDS: usize = 8;
