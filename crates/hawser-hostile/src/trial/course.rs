//! What trials against either side have in common.

use std::time::{Duration, Instant};

use hawser_types::ByteCount;

use crate::error::HostileError;
use crate::meter::{Meter, sample};
use crate::outcome::Outcome;
use crate::performer::Performer;
use crate::priority;
use crate::program::Program;
use crate::script::{Ending, Script};

use super::conditions::Conditions;

/// A trial in its course: the program under test and what was found so far.
pub(super) struct Course {
    pub(super) subject: Program,
    pub(super) outcome: Outcome,
    pub(super) until: Instant,
    again: bool,
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
            until: Instant::now() + conditions.time.unwrap_or(LONGEST_ONCE),
            again: conditions.time.is_some(),
            subject,
            outcome,
        })
    }

    /// Performs the script in one session: once, or again and again. True if the trial goes on with
    /// another session.
    pub(super) async fn perform(&mut self, script: &Script, performer: &mut Performer<'_>) -> bool {
        self.outcome.sessions += 1;
        let mut result = performer.perform(&script.steps).await;
        if let Err(error @ HostileError::Refused) = &result {
            // Later on earlier performances may have used all channels up.
            self.outcome.note(error.to_string());
        }
        while result.is_ok() && self.again && Instant::now() < self.until {
            result = performer.perform(&script.steps).await;
        }
        match result {
            Ok(()) => {}
            // It shows below whether that was right.
            Err(HostileError::Gone | HostileError::Refused) => {}
            Err(error) => self.outcome.note(error.to_string()),
        }
        self.check_ending(script, performer).await;
        let complaint = performer.session.heard().lock().complaint.take();
        complaint.into_iter().for_each(|it| self.outcome.note(it));
        self.again && Instant::now() < self.until
    }

    async fn check_ending(&mut self, script: &Script, performer: &mut Performer<'_>) {
        match &script.ending {
            Ending::Any => {}
            Ending::Lives => {
                if let Err(error) = performer.probe().await
                    && !self.may_be_given_up(&error)
                {
                    let problem = format!("the session does not go on: {error}");
                    self.outcome.note(problem);
                }
            }
            Ending::Fault(text) => {
                let began = Instant::now();
                let log = || self.subject.log();
                while !log().contains(text) && began.elapsed() < PATIENCE {
                    tokio::time::sleep(POLL).await;
                }
                let log = log();
                self.outcome.expect(log.contains(text), || {
                    format!(
                        "the session did not end by the fault \"{text}\": {}",
                        end_of(&log)
                    )
                });
            }
        }
    }

    /// A peer that goes on for long without reading or acknowledging is given up, which is right;
    /// it is at fault in nothing.
    fn may_be_given_up(&self, error: &HostileError) -> bool {
        let is_gone = matches!(error, HostileError::Gone);
        self.again && is_gone && !self.subject.log().contains("the peer is at fault")
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
        let descriptors = match self.again {
            // Each performance may leave streams open, and so does the next one.
            true => script.descriptors.max(MOST_DESCRIPTORS),
            false => script.descriptors,
        };
        self.outcome.judge(descriptors);
        let is_alive = self.subject.is_alive();
        let log = self.subject.log();
        let outcome = &mut self.outcome;
        outcome.expect(is_alive, || format!("the program ended: {}", end_of(&log)));
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

fn end_of(log: &str) -> &str {
    let lines = log.rmatch_indices('\n').nth(4).map_or(0, |(at, _)| at);
    log[lines..].trim()
}

/// Time for a script that is performed once, however much it wants to do.
const LONGEST_ONCE: Duration = Duration::from_secs(4);
const PATIENCE: Duration = Duration::from_secs(5);
/// As many as a session may have streams, and some.
const MOST_DESCRIPTORS: usize = 4200;
/// Time in which a program gives back what a peer has made it take.
const SETTLE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(50);
