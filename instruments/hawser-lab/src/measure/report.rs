//! The results of a run, raw and summed up.

use serde::Serialize;

use super::summary::Summary;
use super::verdict;
use super::{Kind, Meeting, Options, Samples, Table, recovery};
use crate::emulator::Counters;
use crate::experiment::Head;
use crate::scenario::{Direction, Scenario};
use crate::verdict::Verdict;

/// One run of one scenario.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct RunReport {
    /// Scenario, time and place.
    #[serde(flatten)]
    pub head: Head,
    /// Repetitions of each transfer.
    pub repeat: u32,
    /// The figures of each direction.
    pub summaries: Vec<Summary>,
    /// The bounds for Hawser, and whether they are met.
    pub verdicts: Vec<Verdict>,
    /// The parts that were left out, with the reasons.
    pub notes: Vec<String>,
    /// The emulator's counters.
    pub emulator: Counters,
    /// Every transfer.
    pub samples: Vec<Entry>,
}

/// All transfers of one kind in one direction.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Entry {
    /// Direction of the bytes.
    pub direction: Direction,
    /// Contender that carried them.
    #[serde(flatten)]
    pub kind: Kind,
    /// The transfers.
    #[serde(flatten)]
    pub samples: Samples,
    /// For each transfer that went through a scenario's events: seconds from the end of the last
    /// trouble to full rate, none when it was not reached again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub recovery: Vec<Option<f64>>,
}

impl RunReport {
    pub(super) fn new(
        scenario: &Scenario,
        options: &Options,
        table: Table,
        notes: Vec<String>,
        emulator: Counters,
    ) -> Self {
        let mut directions: Vec<_> = table.keys().map(|(direction, _)| *direction).collect();
        directions.dedup();
        let summary = |direction: Direction| {
            Summary::of(&options.sized(scenario, direction), &table, direction)
        };
        let summaries: Vec<_> = directions.into_iter().map(summary).collect();
        let judge = match options.meeting {
            Meeting::Enrolled => verdict::of,
            Meeting::Discovered => verdict::of_discovered,
            Meeting::DiscoveredByCapture => verdict::of_captured,
        };
        let verdicts = summaries.iter().flat_map(|s| judge(scenario, s));
        Self {
            head: Head::new(options.meeting.experiment(), &scenario.name),
            repeat: options.repeat,
            verdicts: verdicts.collect(),
            summaries,
            notes,
            emulator,
            samples: table
                .into_iter()
                .map(|((direction, kind), samples)| Entry {
                    recovery: recoveries(scenario, direction, &kind, &samples),
                    direction,
                    kind,
                    samples,
                })
                .collect(),
        }
    }
}

fn recoveries(
    scenario: &Scenario,
    direction: Direction,
    kind: &Kind,
    samples: &Samples,
) -> Vec<Option<f64>> {
    if scenario.events.is_empty() || matches!(kind, Kind::Tcp { .. }) {
        return Vec::new();
    }
    let rate = scenario.total_rate(direction);
    let outcomes = samples.outcomes.iter();
    outcomes
        .map(|outcome| recovery::seconds(outcome, &scenario.events, rate))
        .collect()
}
