//! Measurements beside a hostile peer.

use std::fmt;
use std::time::Duration;

use hawser_hostile::outcome::Outcome;
use hawser_types::ByteCount;
use serde::Serialize;

use crate::experiment::{Findings, Head};
use crate::text_table::aligned;
use crate::verdict::{Asked, Verdict};

/// All figures of one run.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Report {
    #[serde(flatten)]
    head: Head,
    /// Memory limit of the program, in bytes.
    memory: u64,
    /// Time for each script.
    seconds: f64,
    rows: Vec<Row>,
    failures: Vec<String>,
    verdicts: Vec<Verdict>,
}

/// The figures of one script.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Row {
    #[serde(flatten)]
    outcome: Outcome,
    /// Highest resident memory divided by its bound.
    of_bound: f64,
    /// Honest goodput meanwhile divided by that before; none beside a hostile gateway.
    kept: Option<f64>,
    /// Part of another client's connections and datagrams that was answered; none beside a hostile
    /// gateway.
    answered: Option<f64>,
    /// Highest resident memory of the last minute divided by that of the first; none in a run that
    /// is too short for that.
    growth: Option<f64>,
}

impl Report {
    pub(super) fn new(memory: ByteCount, time: Duration) -> Self {
        Self {
            head: Head::new("hostile", "loopback"),
            memory: memory.as_u64(),
            seconds: time.as_secs_f64(),
            rows: Vec::new(),
            failures: Vec::new(),
            verdicts: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, row: Row) {
        let script = &row.outcome.script;
        let lines = row.outcome.violations.iter().cloned();
        let lines = lines.chain(row.shortfalls());
        self.failures
            .extend(lines.map(|what| format!("{script}: {what}")));
        self.rows.push(row);
    }

    /// Notes a script that could not be measured.
    pub(super) fn fail(&mut self, script: &str, problem: &str) {
        self.failures.push(format!("{script}: {problem}"));
    }

    /// Sets the worst figures against what is asked of them.
    pub(super) fn judge(&mut self) {
        let worst = |figure: Figure, sign: f64| {
            let all = self.rows.iter();
            let all = all.filter_map(|row| Some((figure(row)?, row.outcome.script.as_str())));
            all.max_by(|a, b| (sign * a.0).total_cmp(&(sign * b.0)))
        };
        let figures: [(_, Figure, _, _); 4] = [
            (
                "highest memory, of its bound",
                |row| Some(row.of_bound),
                1.0,
                Asked::AtMost(1.0),
            ),
            (
                "least goodput kept",
                |row| row.kept,
                -1.0,
                Asked::AtLeast(LEAST_KEPT),
            ),
            (
                "least answered",
                |row| row.answered,
                -1.0,
                Asked::AtLeast(LEAST_ANSWERED),
            ),
            (
                "highest growth",
                |row| row.growth,
                1.0,
                Asked::AtMost(MOST_GROWTH),
            ),
        ];
        let verdict = |(what, figure, sign, asked)| {
            let (figure, script) = worst(figure, sign)?;
            Some(Verdict::new(format!("{what} ({script})"), figure, asked))
        };
        let verdicts = figures.into_iter().filter_map(verdict).collect();
        self.verdicts = verdicts;
    }
}

impl Row {
    pub(super) fn new(outcome: Outcome) -> Self {
        let length = outcome.samples.last().map_or(0.0, |it| it.seconds);
        let highest = |from: f64, to: f64| {
            let during = outcome.samples.iter();
            let during = during.filter(|it| (from..=to).contains(&it.seconds));
            during.map(|it| it.resident).max().unwrap_or_default() as f64
        };
        let growth = highest(length - MINUTE, length) / highest(0.0, MINUTE);
        Self {
            of_bound: outcome.most_resident as f64 / outcome.bound.max(1) as f64,
            kept: outcome.ratio(),
            answered: outcome.answered(),
            growth: (length >= 2.0 * MINUTE).then_some(growth),
            outcome,
        }
    }

    /// Figures that are not what is asked.
    fn shortfalls(&self) -> impl Iterator<Item = String> + use<> {
        let kept = self.kept.filter(|it| *it < LEAST_KEPT);
        let answered = self.answered.filter(|it| *it < LEAST_ANSWERED);
        let growth = self.growth.filter(|it| *it > MOST_GROWTH);
        let kept = kept.map(|it| format!("{it:.2} of the goodput was kept"));
        let answered = answered.map(|it| format!("{it:.3} were answered"));
        let growth = growth.map(|it| format!("memory grew to {it:.2} of the first minute's"));
        [kept, answered, growth].into_iter().flatten()
    }

    fn cells(&self) -> Vec<String> {
        let mb = |bytes: u64| format!("{:.1}", bytes as f64 / 1e6);
        let rate = |rate: Option<f64>| rate.map_or("-".to_owned(), |it| format!("{:.2}", it / 1e6));
        let part = |part: Option<f64>| part.map_or("-".to_owned(), |it| format!("{it:.2}"));
        let outcome = &self.outcome;
        let is_good = outcome.violations.is_empty() && self.shortfalls().next().is_none();
        let word = match (is_good, outcome.known_fault) {
            (true, _) => "good",
            (false, Some(_)) => "known",
            (false, None) => "WRONG",
        };
        vec![
            outcome.script.clone(),
            word.to_owned(),
            mb(outcome.idle_resident),
            mb(outcome.most_resident),
            mb(outcome.last_resident),
            mb(outcome.bound),
            part(self.growth),
            rate(outcome.goodput_before),
            rate(outcome.goodput_during),
            part(self.kept),
            part(self.answered),
            outcome.sessions.to_string(),
        ]
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mb = |bytes: u64| bytes as f64 / 1e6;
        let (most, bound) = (mb(self.outcome.most_resident), mb(self.outcome.bound));
        write!(f, "{most:.1} of {bound:.1} MB")?;
        if let Some(kept) = self.kept {
            write!(f, ", {kept:.2} of the goodput")?;
        }
        if let Some(answered) = self.answered {
            write!(f, ", {answered:.3} answered")?;
        }
        match self.outcome.violations.as_slice() {
            [] => Ok(()),
            problems => write!(f, ": {}", problems.join("; ")),
        }
    }
}

impl Findings for Report {
    fn head(&self) -> &Head {
        &self.head
    }

    fn table(&self) -> String {
        let title = format!(
            "each script for {} s, memory limit {}",
            self.seconds,
            ByteCount::new(self.memory)
        );
        let mut lines = vec![HEADER.map(str::to_owned).to_vec()];
        lines.extend(self.rows.iter().map(Row::cells));
        self.head.title(&title) + &aligned(&lines)
    }

    fn failures(&self) -> Vec<String> {
        self.failures.clone()
    }

    fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }
}

/// A figure of one script, where it was measured.
type Figure = fn(&Row) -> Option<f64>;

const HEADER: [&str; 12] = [
    "script",
    "",
    "idle MB",
    "most MB",
    "after MB",
    "bound MB",
    "growth",
    "before MB/s",
    "during MB/s",
    "kept",
    "answered",
    "sessions",
];
/// Part of its goodput that an honest client has to keep.
const LEAST_KEPT: f64 = 0.9;
/// Part of another client's connections and datagrams that has to be answered.
const LEAST_ANSWERED: f64 = 0.98;
/// Most memory at the end, as part of that of the first minute.
const MOST_GROWTH: f64 = 1.1;
/// In seconds. Memory is on its way up in the first one.
const MINUTE: f64 = 60.0;

#[cfg(test)]
mod tests {
    use super::*;
    use hawser_hostile::outcome::Sample;

    fn row(script: &str, resident: &[u64], during: f64) -> Row {
        let sample = |(seconds, resident): (usize, &u64)| Sample {
            seconds: seconds as f64,
            resident: *resident,
            descriptors: 9,
        };
        Row::new(Outcome {
            script: script.to_owned(),
            bound: 100,
            most_resident: resident.iter().copied().max().unwrap_or_default(),
            goodput_before: Some(10.0),
            goodput_during: Some(during),
            samples: resident.iter().enumerate().map(sample).collect(),
            ..Outcome::default()
        })
    }

    #[test]
    fn growth_compares_the_highest_of_the_first_and_last_minute() {
        let minutes = |first: u64, last: u64| {
            let resident = |second: u64| if second <= 60 { first } else { last };
            let all: Vec<_> = (0..=180).map(resident).collect();
            row("flat", &all, 10.0).growth
        };
        assert_eq!(minutes(100, 120), Some(1.2));
        assert_eq!(minutes(100, 50), Some(0.5));
        assert_eq!(row("short", &[10, 20, 90], 10.0).growth, None);
        assert_eq!(row("nothing", &[], 10.0).growth, None);
    }

    #[test]
    fn the_worst_scripts_are_judged_and_named() {
        let mut report = Report::new(ByteCount::new(80), Duration::from_secs(600));
        report.add(row("large", &[10, 10, 120], 10.0));
        report.add(row("slow", &[10, 10, 10], 5.0));
        let mut rising = vec![50; 61];
        rising.extend([80; 100]);
        report.add(row("rising", &rising, 10.0));
        let mut deaf = row("deaf", &[10], 10.0);
        deaf.answered = Some(0.97);
        report.add(deaf);
        report.judge();
        let met: Vec<_> = report.verdicts().iter().map(|it| it.met).collect();
        assert_eq!(met, [false; 4]);
        let names = ["(large)", "(slow)", "(deaf)", "(rising)"];
        let all = report.verdicts().iter().zip(names);
        assert!(all.into_iter().all(|(it, name)| it.what.ends_with(name)));
        assert_eq!(report.verdicts()[1].figure, Some(0.5));
        // Each is a failure, which the exit code tells.
        let failures = report.failures().join("; ");
        for name in ["slow: ", "deaf: ", "rising: "] {
            assert!(failures.contains(name), "{failures}");
        }
    }
}
