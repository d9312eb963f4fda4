//! Code that trials against either side share.

use std::time::{Duration, Instant};

use hawser_types::{ByteCount, SessionId};

use crate::error::HostileError;
use crate::meter::{Meter, sample};
use crate::outcome::Outcome;
use crate::performer::Performer;
use crate::priority;
use crate::program::Program;
use crate::script::{Reason, Script};
use crate::step::Step;

use super::conditions::Conditions;
use super::ending;

/// A trial in its course: the program under test and what was found so far.
pub(super) struct Course {
    pub(super) subject: Program,
    pub(super) outcome: Outcome,
    until: Instant,
    again: bool,
    /// Connections that the program had given up when that was looked at last; `None` where the
    /// script has it give some up.
    given_up: Option<u64>,
    meter: Meter,
}

impl Course {
    /// Begins to measure a program that is idle.
    pub(super) fn begin(
        subject: Program,
        script: &Script,
        conditions: &Conditions,
    ) -> Result<Self, HostileError> {
        // All that is honest has its threads and processes by now.
        priority::yield_to_all();
        let idle = sample(subject.id(), Duration::ZERO)?;
        let memory = conditions.memory.as_u64();
        let outcome = Outcome {
            script: script.name.to_owned(),
            idle_resident: idle.resident,
            bound: idle.resident + memory + memory / 4,
            descriptors: [idle.descriptors; 3],
            known_fault: script.known_fault,
            ..Outcome::default()
        };
        Ok(Self {
            meter: Meter::start(subject.id()),
            until: Instant::now() + conditions.time.unwrap_or_default(),
            again: conditions.time.is_some(),
            given_up: if script.steps.iter().any(Step::is_silent) {
                None
            } else {
                Some(subject.given_up())
            },
            subject,
            outcome,
        })
    }

    /// Until when a session that has just begun performs the script.
    ///
    /// A script that is performed once has time from here on, however long the beginning took on a
    /// busy machine; one that ends its session has the time to say all with which it does.
    pub(super) fn performs_until(&mut self, script: &Script) -> Instant {
        if !self.again {
            let longest = if script.ending.lives {
                LONGEST_ONCE
            } else {
                PATIENCE
            };
            self.until = Instant::now() + longest;
        }
        self.until
    }

    /// Performs the script in one session: once, or again and again. True if the trial goes on with
    /// another session.
    pub(super) async fn perform(&mut self, script: &Script, performer: &mut Performer<'_>) -> bool {
        self.outcome.sessions += 1;
        let begun = self.subject.log_length();
        let mut result = performer.perform(&script.steps).await;
        for _ in 0..MOST_TRIES {
            if matches!(result, Err(HostileError::Refused)) && self.was_too_slow() {
                result = performer.perform(&script.steps).await;
            }
        }
        if let Err(error @ HostileError::Refused) = &result {
            // Later on earlier performances may have used all channels up.
            self.outcome.note(error.to_string());
        }
        while result.is_ok() && self.again && !self.is_late() {
            result = performer.perform(&script.steps).await;
        }
        match result {
            Ok(()) => {}
            // It shows below whether that was right.
            Err(HostileError::Gone | HostileError::Refused) => {}
            Err(error) => self.outcome.note(error.to_string()),
        }
        self.check_ending(script, performer, begun).await;
        let complaint = performer.session.heard().lock().complaint.take();
        complaint.into_iter().for_each(|it| self.outcome.note(it));
        self.again && !self.is_late()
    }

    /// Whether a connection of the hostile peer may have failed because the peer got no processor
    /// time: it has the lowest priority, and the program waits for no peer for ever. True at most
    /// once for each connection that the program reports as given up.
    pub(super) fn was_too_slow(&mut self) -> bool {
        let Some(before) = self.given_up else {
            return false;
        };
        let now = self.subject.given_up();
        self.given_up = Some(now);
        now > before
    }

    fn is_late(&self) -> bool {
        Instant::now() >= self.until
    }

    /// Checks how the session has ended, or that it goes on; what the program says of it is in its
    /// log behind `begun`.
    async fn check_ending(&mut self, script: &Script, performer: &mut Performer<'_>, begun: u64) {
        let ending = &script.ending;
        let mut lost = None;
        if ending.lives {
            match performer.probe().await {
                Ok(()) => return self.count_ending("it goes on".to_owned()),
                Err(error) => lost = Some(error),
            }
        }
        let id = performer.session.shared().keys.session_id();
        let problem = match self.reason(id, begun).await {
            Ok(Some(reason)) => {
                let how = without_numbers(&reason.to_string());
                let problem = format!("the session ended by {how}");
                self.count_ending(how);
                if ending.allows(&reason) {
                    return;
                }
                problem
            }
            Ok(None) => match lost {
                Some(error) => format!("the session does not go on: {error}"),
                // The time was over before the script was.
                None if self.is_late() && !self.outcome.endings.is_empty() => return,
                None => "the session was not ended".to_owned(),
            },
            Err(line) => format!("the session ended in a strange way: {line}"),
        };
        self.outcome.note(problem);
    }

    /// Waits until the program says why it has ended a session.
    async fn reason(&self, id: SessionId, begun: u64) -> Result<Option<Reason>, String> {
        let began = Instant::now();
        loop {
            let reason = ending::reason(&self.subject.log_from(begun), id);
            if reason != Ok(None) || began.elapsed() > PATIENCE {
                return reason;
            }
            tokio::time::sleep(POLL).await;
        }
    }

    fn count_ending(&mut self, how: String) {
        *self.outcome.endings.entry(how).or_default() += 1;
    }

    /// Ends the trial: waits for memory and descriptors to come back, and judges.
    pub(super) async fn end(mut self, script: &Script) -> Outcome {
        let readings = self.meter.stop().await;
        self.outcome.most_resident = readings.most_resident;
        self.outcome.descriptors[1] = readings.most_descriptors;
        self.outcome.samples = readings.samples;
        let back = self.outcome.allowed_after();
        let began = Instant::now();
        while let Ok(last) = sample(self.subject.id(), began.elapsed()) {
            self.outcome.last_resident = last.resident;
            self.outcome.descriptors[2] = last.descriptors;
            let files = last.descriptors <= self.outcome.descriptors[0];
            if (files && last.resident <= back) || began.elapsed() > SETTLE {
                break;
            }
            tokio::time::sleep(POLL).await;
        }
        let descriptors = if self.again {
            // Each performance may leave streams open, and so does the next one.
            script.descriptors.max(MOST_DESCRIPTORS)
        } else {
            script.descriptors
        };
        self.outcome.judge(descriptors);
        let is_alive = self.subject.is_alive();
        let log = self.subject.log();
        let outcome = &mut self.outcome;
        outcome.expect(is_alive, || {
            let last = log.rmatch_indices('\n').nth(4).map_or(0, |(at, _)| at);
            format!("the program ended: {}", log[last..].trim())
        });
        outcome.expect(!log.contains("panicked"), || {
            let line = log.lines().find(|line| line.contains("panicked"));
            format!("a panic: {}", line.unwrap_or_default())
        });
        let answers = self.subject.status().is_some();
        outcome.expect(answers, || "the daemon does not answer".to_owned());
        self.outcome
    }
}

/// The configuration of the program under test.
pub(super) fn config(conditions: &Conditions) -> String {
    let memory = conditions.memory.as_u64();
    format!(
        "[serve.limits]\nmemory = \"{memory}B\"\n[session]\nsurvive = \"2s\"\n\
         receive-memory = \"{}B\"\n",
        memory.max(ByteCount::from_mib(1).as_u64())
    )
}

/// A text with which others like it are counted together.
fn without_numbers(text: &str) -> String {
    let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
    let words = text.split(' ');
    let words: Vec<_> = words
        .map(|it| if is_number(it) { "N" } else { it })
        .collect();
    words.join(" ")
}

/// A peer that was too slow tries again so often.
pub(super) const MOST_TRIES: u32 = 4;
/// Time for a script that is performed once and does not end its session, however much it wants to
/// do.
const LONGEST_ONCE: Duration = Duration::from_secs(4);
const PATIENCE: Duration = Duration::from_secs(20);
/// As many as a session may have streams, and some.
const MOST_DESCRIPTORS: usize = 4200;
/// Time in which a program gives back what a peer has made it take.
const SETTLE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(50);
