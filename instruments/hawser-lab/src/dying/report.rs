//! The report of `hawser-lab dying`.

use std::collections::BTreeMap;

use hawser_scenario::dying::{
    Cell, DyingReport, DyingTable, Figures, LEAST_SHARE, LONGEST_SILENCE, MOST_OF_P99, Work,
};
use serde::Serialize;

use crate::experiment::{Findings, Head, named};
use crate::meter::Outcome;
use crate::verdict::{Asked, Verdict};

/// All cells that were run.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct LabReport {
    #[serde(flatten)]
    pub(super) head: Head,
    /// Seed of the draw.
    pub(super) seed: u64,
    pub(super) verdicts: Vec<Verdict>,
    pub(super) cells: Vec<Found>,
}

/// One cell that was run.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Found {
    /// Its place in the draw, from 1.
    number: usize,
    cell: Cell,
    /// `None` if one of the two runs failed.
    pub(super) report: Option<DyingReport>,
    /// Over the healthy link alone.
    pub(super) healthy: Run,
    /// Over all links.
    pub(super) all: Run,
    pub(super) failures: Vec<String>,
}

/// What was measured in one run.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Run {
    /// Every transfer, in order; also one before links die, which is not judged.
    pub(super) transfers: Vec<Outcome>,
    /// Every request, in order.
    pub(super) request_seconds: Vec<f64>,
    /// The call's blocks there and back, in order.
    pub(super) echo_seconds: Vec<f64>,
    /// Counters of both ends at the end of the run.
    pub(super) hawser: BTreeMap<String, u64>,
}

impl Found {
    pub(super) fn new(number: usize, cell: Cell) -> Self {
        Self {
            number,
            cell,
            report: None,
            healthy: Run::default(),
            all: Run::default(),
            failures: Vec::new(),
        }
    }

    fn name(&self) -> String {
        format!("{}: {}", self.number, self.cell.name())
    }

    /// Judges the cell: what it does not have is never reached.
    pub(super) fn verdicts(&self) -> Vec<Verdict> {
        let report = self.report.as_ref();
        let thousandths = |figure: u64| figure as f64 / 1e3;
        let figure = |of: fn(&DyingReport) -> Option<u64>| report.and_then(of);
        let judge = |what: &str, figure: Option<f64>, asked| {
            let what = format!("{}: {what}", self.name());
            Verdict::new(what, figure.unwrap_or(f64::NAN), asked)
        };
        let mut all = Vec::new();
        if self.cell.work != Work::Requests {
            let share = figure(DyingReport::of_healthy).map(thousandths);
            let asked = Asked::AtLeast(thousandths(LEAST_SHARE));
            all.push(judge("goodput, of healthy", share, asked));
        }
        let silence = figure(|it| Some(it.all.silence));
        let asked = Asked::AtMost(LONGEST_SILENCE as f64);
        all.push(judge(
            "longest silence, ms",
            silence.map(|it| it as f64),
            asked,
        ));
        if self.cell.work != Work::Bulk {
            let p99 = figure(DyingReport::p99_of_healthy).map(thousandths);
            let asked = Asked::AtMost(thousandths(MOST_OF_P99));
            all.push(judge("p99, of healthy", p99, asked));
        }
        all
    }

    /// Whether it is as good as it should be.
    pub(super) fn word(&self) -> &'static str {
        if self.verdicts().iter().all(|verdict| verdict.met) {
            "met"
        } else {
            "SHORT"
        }
    }
}

/// One line about a run.
pub(super) fn line(figures: &Figures) -> String {
    let goodputs = figures.goodputs.iter();
    let mut parts: Vec<_> = goodputs.map(|rate| format!("{rate} kbit/s")).collect();
    parts.push(format!("silence {} ms", figures.silence));
    parts.extend(figures.p99.map(|micros| format!("p99 {micros} us")));
    parts.join(", ")
}

impl Findings for LabReport {
    fn head(&self) -> &Head {
        &self.head
    }

    fn table(&self) -> String {
        let reports = self.cells.iter().filter_map(|found| found.report.clone());
        let mut reports: Vec<_> = reports.collect();
        reports.sort_by_key(DyingReport::badness);
        let mut text = self.head.title("dying links beside a healthy one");
        text.push_str(&DyingTable::new(&reports, None).to_string());
        text
    }

    fn failures(&self) -> Vec<String> {
        let of = |found: &Found| named(&found.name(), &found.failures);
        self.cells.iter().flat_map(of).collect()
    }

    fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }
}

#[cfg(test)]
mod tests {
    use hawser_scenario::dying::{TRANSPORTS, draw};

    use super::*;

    fn figures(goodput: u64, silence: u64, p99: Option<u64>) -> Figures {
        Figures {
            goodputs: vec![goodput],
            silence,
            p99,
        }
    }

    fn found(work: Work, all: Option<Figures>) -> Found {
        let cell = draw(1, 1, &TRANSPORTS).unwrap()[0];
        let cell = Cell { work, ..cell };
        let report = all.map(|all| DyingReport {
            cell,
            all,
            healthy: figures(10_000, 20, Some(100_000)),
        });
        Found {
            report,
            ..Found::new(1, cell)
        }
    }

    fn met(found: &Found) -> Vec<bool> {
        let all = found.verdicts();
        all.iter().map(|verdict| verdict.met).collect()
    }

    #[test]
    fn a_cell_is_met_just_when_the_simulator_would_keep_it() {
        for (goodput, silence, p99) in [
            (9800, 500, 120_000),
            (9799, 500, 120_000),
            (9800, 501, 120_000),
            (9800, 500, 120_100),
        ] {
            let found = found(Work::Call, Some(figures(goodput, silence, Some(p99))));
            let is_kept = found.report.as_ref().unwrap().is_kept();
            assert_eq!(
                met(&found),
                [goodput == 9800, silence == 500, p99 == 120_000]
            );
            assert_eq!(found.word() == "met", is_kept);
        }
    }

    #[test]
    fn each_work_is_judged_by_its_own_figures() {
        let bulk = found(Work::Bulk, Some(figures(10_000, 30, None)));
        assert_eq!(met(&bulk), [true, true]);
        let requests = Figures {
            goodputs: Vec::new(),
            ..figures(0, 600, Some(100_000))
        };
        assert_eq!(met(&found(Work::Requests, Some(requests))), [false, true]);
    }

    #[test]
    fn what_was_not_measured_is_short() {
        let failed = found(Work::Call, None);
        assert_eq!(met(&failed), [false; 3]);
        let figures = failed.verdicts();
        assert!(figures.iter().all(|verdict| verdict.figure.is_none()));
    }
}
