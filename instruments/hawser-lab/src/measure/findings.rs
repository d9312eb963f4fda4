//! A report of a run, as experiments show it.

use std::collections::BTreeMap;

use hawser_monitor::report::Chart;

use super::Kind;
use super::report::{Entry, RunReport};
use super::summary::Summary;
use super::table;
use crate::experiment::{Findings, Head, named};
use crate::timeline;
use crate::verdict::Verdict;

impl Findings for RunReport {
    fn head(&self) -> &Head {
        &self.head
    }

    fn table(&self) -> String {
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

    fn failures(&self) -> Vec<String> {
        let of = |entry: &Entry| {
            let name = format!("{} {}", entry.direction.name(), entry.kind);
            named(&name, &entry.samples.failures)
        };
        self.samples.iter().flat_map(of).collect()
    }

    fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }

    fn summary(all: &[Self]) -> String {
        table::render_all(all)
    }
}

/// The contenders of a chart, by whatever congestion control.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Contestant {
    Link(usize),
    Mptcp,
    HawserFirst,
    HawserWarm,
}

impl Contestant {
    pub(super) fn of(kind: &Kind) -> Self {
        match kind {
            Kind::Tcp { link, .. } => Self::Link(*link),
            Kind::Mptcp { .. } => Self::Mptcp,
            Kind::HawserFirst => Self::HawserFirst,
            Kind::HawserWarm => Self::HawserWarm,
        }
    }
}
