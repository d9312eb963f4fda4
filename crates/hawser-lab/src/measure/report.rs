//! What a run found, raw and summed up.

use std::collections::BTreeMap;

use hawser_monitor::report::Chart;
use serde::Serialize;

use super::overhead::{WireCost, of_tcp};
use super::{Kind, Options, Samples, Table, recovery};
use super::{table, verdict};
use crate::emulator::Counters;
use crate::experiment::{Findings, Head};
use crate::meter::Congestion;
use crate::scenario::{Direction, Scenario};
use crate::timeline;
use crate::verdict::Verdict;

/// One run of one scenario.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Report {
    /// Which scenario, when and where.
    #[serde(flatten)]
    pub head: Head,
    /// How often each transfer was made.
    pub repeat: u32,
    /// The figures of each direction.
    pub summaries: Vec<Summary>,
    /// What is asked of Hawser, and whether it is reached.
    pub verdicts: Vec<Verdict>,
    /// What was left out, and why.
    pub notes: Vec<String>,
    /// What the emulator did.
    pub emulator: Counters,
    /// Every transfer.
    pub samples: Vec<Entry>,
}

/// All transfers of one kind in one direction.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Entry {
    /// Which way.
    pub direction: Direction,
    /// Who carried them.
    #[serde(flatten)]
    pub kind: Kind,
    /// The transfers.
    #[serde(flatten)]
    pub samples: Samples,
    /// For each transfer that went through a scenario's events: seconds from the end of the last
    /// trouble to full rate, nothing when it was not reached again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub recovery: Vec<Option<f64>>,
}

/// The figures of one direction, medians in Mbit/s.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Summary {
    /// Which way.
    pub direction: Direction,
    /// Bytes of a transfer over all links.
    pub payload: u64,
    /// Each link alone, all at the same time, with its better congestion control.
    pub singles: Vec<Option<f64>>,
    /// Their sum; nothing unless every link was measured.
    pub sum: Option<f64>,
    /// The best single link.
    pub best_single: Option<f64>,
    /// MPTCP with its better congestion control.
    pub mptcp: Option<f64>,
    /// The first transfer on a fresh Hawser session.
    pub hawser_first: Option<f64>,
    /// A later one.
    pub hawser_warm: Option<f64>,
    /// IP bytes for each byte of payload: plain TCP on single links.
    pub tcp_wire: Option<WireCost>,
    /// The same of a first transfer; its handshakes and joins are in it.
    pub hawser_first_wire: Option<WireCost>,
    /// The same of a later one.
    pub hawser_warm_wire: Option<WireCost>,
    /// How much a later Hawser transfer costs beyond plain TCP; 0.01 is one part in a hundred.
    pub overhead: Option<WireCost>,
}

impl Summary {
    fn of(scenario: &Scenario, table: &Table, direction: Direction) -> Self {
        let links = scenario.links.len();
        let figure = |kind: Kind| table.get(&(direction, kind)).and_then(Samples::median);
        let better = |kind: &dyn Fn(Congestion) -> Kind| {
            let figures = Congestion::ALL.into_iter().filter_map(|c| figure(kind(c)));
            figures.reduce(f64::max)
        };
        let singles: Vec<_> = (1..=links)
            .map(|link| better(&|congestion| Kind::Tcp { link, congestion }))
            .collect();
        let wire = |kind| WireCost::of(table.get(&(direction, kind)).into_iter(), direction);
        let (tcp_wire, hawser_warm_wire) = (of_tcp(table, direction), wire(Kind::HawserWarm));
        Self {
            direction,
            payload: scenario.payload.as_u64(),
            sum: singles.iter().copied().sum(),
            best_single: singles.iter().copied().flatten().reduce(f64::max),
            singles,
            mptcp: better(&|congestion| Kind::Mptcp { congestion }),
            hawser_first: figure(Kind::HawserFirst),
            hawser_warm: figure(Kind::HawserWarm),
            tcp_wire,
            hawser_first_wire: wire(Kind::HawserFirst),
            hawser_warm_wire,
            overhead: hawser_warm_wire
                .zip(tcp_wire)
                .map(|(own, plain)| own.above(plain)),
        }
    }
}

/// Who is compared with others, by whatever congestion control.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Contestant {
    Link(usize),
    Mptcp,
    HawserFirst,
    HawserWarm,
}

impl Contestant {
    fn of(kind: &Kind) -> Self {
        match kind {
            Kind::Tcp { link, .. } => Self::Link(*link),
            Kind::Mptcp { .. } => Self::Mptcp,
            Kind::HawserFirst => Self::HawserFirst,
            Kind::HawserWarm => Self::HawserWarm,
        }
    }
}

impl Report {
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
        let verdicts = summaries.iter().flat_map(|s| verdict::of(scenario, s));
        Self {
            head: Head::new("run", &scenario.name),
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

impl Findings for Report {
    fn head(&self) -> &Head {
        &self.head
    }

    fn render(&self) -> String {
        table::render(self)
    }

    /// One for each direction; of each contender the transfer with the median rate, by the
    /// congestion control that was ahead.
    fn charts(&self) -> Vec<Chart> {
        let chart = |summary: &Summary| {
            let direction = summary.direction;
            let mut best: BTreeMap<Contestant, (f64, &Entry)> = BTreeMap::new();
            let own = self.samples.iter().filter(|it| it.direction == direction);
            for entry in own {
                let Some(rate) = entry.samples.median() else {
                    continue;
                };
                let place = best.entry(Contestant::of(&entry.kind));
                let (known, kept) = place.or_insert((rate, entry));
                if rate > *known {
                    (*known, *kept) = (rate, entry);
                }
            }
            let transfers = best.into_values().filter_map(|(_, entry)| {
                let median = timeline::median(entry.samples.outcomes.iter())?;
                Some((entry.kind.to_string(), median.clone()))
            });
            timeline::chart(format!("{}: rate over time", direction.name()), transfers)
        };
        self.summaries.iter().map(chart).collect()
    }

    fn failures(&self) -> usize {
        let samples = self.samples.iter().map(|entry| &entry.samples);
        samples.map(|samples| samples.failures.len()).sum()
    }

    fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }

    fn summary(all: &[Self]) -> String {
        table::render_all(all)
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
