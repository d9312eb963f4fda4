//! Links whose connections wait for their answer for too long.

use std::net::SocketAddr;
use std::sync::Arc;

use hawser_capture::{CaptureError, Handshake};
use hawser_director::{LinkDecision, Route, leads_to};
use hawser_net::links::Link;
use hawser_types::Instant;

use super::super::trial::{self, Comparison};
use super::KernelPlaces;
use super::unanswered::Question;

impl KernelPlaces {
    /// Looks whether what waited is answered by now, and asks about links where answers are
    /// overdue.
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
            |link| director.with(|director, _| director.patience(link)),
            |link, since| !director.with(|director, _| director.was_heard_since(link, since)),
        )
    }

    /// Asks for the place over the link and over others, in the background.
    fn ask(&mut self, question: Question, now: Instant) {
        let decision = self.director.decide_untold(&question.request);
        self.try_again(&decision, question.remote);
        let address = question.remote.ip();
        let Some((it, others)) = decision.compared(question.link, address) else {
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
            Comparison::Answers(after) => {
                self.director
                    .with(|director, now| director.handle_answer(now, link, Some(after)));
            }
            Comparison::Silent { waited, by, after } => {
                self.director
                    .with(|director, now| director.handle_answer(now, by, Some(after)));
                // Whatever has come over the link meanwhile is in its favour.
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

    /// Tries a suspect link that is due for it, beside a connection to `remote`.
    pub(super) fn try_again(&self, decision: &LinkDecision, remote: SocketAddr) {
        let leads = |link: &&Arc<Link>| {
            decision.route(remote.ip()) == Route::Links && leads_to(link, remote.is_ipv6())
        };
        if let Some(link) = decision.trial.as_ref().filter(leads) {
            trial::try_again(&self.director, &self.via, Arc::clone(link), remote);
        }
    }
}

/// Connections that can't be asked about are passed over so many at a time, for each link.
const MAX_ROUNDS: usize = 8;
