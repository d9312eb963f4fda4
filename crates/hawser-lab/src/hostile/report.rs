//! What was measured beside a hostile peer.

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
    /// Bytes by which the highest sample of the last third exceeds that of the first third.
    growth: i64,
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
        let lines = row.outcome.violations.iter();
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
        let worst = |figure: fn(&Row) -> Option<f64>, sign: f64| {
            let all = self.rows.iter();
            let all = all.filter_map(|row| Some((figure(row)?, row.outcome.script.as_str())));
            all.max_by(|a, b| (sign * a.0).total_cmp(&(sign * b.0)))
        };
        let limit = self.memory as f64;
        let growth = |row: &Row| Some(row.growth as f64);
        let mut verdicts = Vec::new();
        if let Some((figure, script)) = worst(|row| Some(row.of_bound), 1.0) {
            let what = format!("highest memory, of its bound ({script})");
            verdicts.push(Verdict::new(what, figure, Asked::AtMost(1.0)));
        }
        if let Some((figure, script)) = worst(|row| row.kept, -1.0) {
            let what = format!("least goodput kept ({script})");
            verdicts.push(Verdict::new(what, figure, Asked::AtLeast(0.9)));
        }
        // In a short time the first third is the way up.
        if self.seconds >= FLAT_FROM
            && let Some((bytes, script)) = worst(growth, 1.0)
        {
            let what = format!("highest growth, of the limit ({script})");
            verdicts.push(Verdict::new(
                what,
                bytes / limit,
                Asked::AtMost(MOST_GROWTH),
            ));
        }
        self.verdicts = verdicts;
    }
}

impl Row {
    pub(super) fn new(outcome: Outcome) -> Self {
        let samples = &outcome.samples;
        let third = samples.len().div_ceil(3);
        let highest = |skip: usize| {
            let third = samples.iter().skip(skip).take(third);
            third.map(|it| it.resident).max().unwrap_or_default()
        };
        let growth = highest(samples.len() - third).cast_signed() - highest(0).cast_signed();
        Self {
            of_bound: outcome.most_resident as f64 / outcome.bound.max(1) as f64,
            kept: outcome.ratio(),
            growth,
            outcome,
        }
    }

    fn is_good(&self) -> bool {
        self.outcome.violations.is_empty() && self.kept.is_none_or(|kept| kept >= 0.9)
    }

    fn cells(&self) -> Vec<String> {
        let mb = |bytes: u64| format!("{:.1}", bytes as f64 / 1e6);
        let rate = |rate: Option<f64>| rate.map_or("-".to_owned(), |it| format!("{:.2}", it / 1e6));
        let outcome = &self.outcome;
        let word = match (self.is_good(), outcome.known_fault) {
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
            format!("{:+.1}", self.growth as f64 / 1e6),
            rate(outcome.goodput_before),
            rate(outcome.goodput_during),
            self.kept.map_or("-".to_owned(), |it| format!("{it:.2}")),
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

const HEADER: [&str; 11] = [
    "script",
    "",
    "idle MB",
    "most MB",
    "after MB",
    "bound MB",
    "growth MB",
    "before MB/s",
    "during MB/s",
    "kept",
    "sessions",
];
/// Seconds from which on memory is asked to be flat.
const FLAT_FROM: f64 = 60.0;
/// Growth that is allowed, as part of the memory limit.
const MOST_GROWTH: f64 = 0.1;

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
    fn growth_compares_the_highest_of_the_first_and_last_third() {
        assert_eq!(row("up", &[10, 20, 90, 30, 50, 40], 10.0).growth, 30);
        assert_eq!(row("down", &[50, 10, 10], 10.0).growth, -40);
        assert_eq!(row("nothing", &[], 10.0).growth, 0);
    }

    #[test]
    fn the_worst_scripts_are_judged_and_named() {
        let mut report = Report::new(ByteCount::new(80), Duration::from_secs(600));
        report.add(row("large", &[10, 10, 120], 10.0));
        report.add(row("slow", &[10, 10, 10], 5.0));
        report.judge();
        let met: Vec<_> = report.verdicts().iter().map(|it| it.met).collect();
        assert_eq!(met, [false; 3]);
        let names = ["(large)", "(slow)", "(large)"];
        let all = report.verdicts().iter().zip(names);
        assert!(all.into_iter().all(|(it, name)| it.what.ends_with(name)));
        assert_eq!(report.verdicts()[1].figure, Some(0.5));
    }

    #[test]
    fn memory_need_not_be_flat_while_it_still_rises() {
        let mut report = Report::new(ByteCount::new(80), Duration::from_secs(10));
        report.add(row("rising", &[10, 10, 90], 10.0));
        report.judge();
        assert!(report.verdicts().iter().all(|it| it.met));
    }
}
