use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// What fuzzers did so far, in all runs together.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Totals {
    targets: BTreeMap<String, Run>,
}

/// What one target did, in a run or in all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Run {
    /// Inputs that were tried.
    pub(super) executions: u64,
    /// Time that it ran.
    pub(super) seconds: u64,
    /// Runs that ended with a finding.
    pub(super) findings: u64,
    /// Commit of the latest run.
    pub(super) commit: String,
}

impl Totals {
    /// Reads the totals of earlier runs; without a file there were none.
    pub(super) fn read(file: &Path) -> Result<Self> {
        match fs::read_to_string(file) {
            Ok(text) => serde_json::from_str(&text).with_context(|| file.display().to_string()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error).with_context(|| file.display().to_string()),
        }
    }

    /// Keeps the totals.
    pub(super) fn write(&self, file: &Path) -> Result<()> {
        let shown = || file.display().to_string();
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder).with_context(shown)?;
        }
        let text = serde_json::to_string_pretty(self)?;
        fs::write(file, text + "\n").with_context(shown)
    }

    /// Adds a run. Returns a line that says what it did and what there is in all.
    pub(super) fn add(&mut self, target: &str, run: Run) -> String {
        let total = self.targets.entry(target.to_owned()).or_default();
        total.executions += run.executions;
        total.seconds += run.seconds;
        total.findings += run.findings;
        total.commit = run.commit;
        format!(
            "{target:24} {:>12} executions, {:>8}/s, {} findings; in all {:>13}, goal {:>11}",
            run.executions,
            run.executions / run.seconds.max(1),
            run.findings,
            total.executions,
            total.goal(),
        )
    }

    /// Divides a time among targets. Those that reach their goal soonest come first and get what
    /// they need, while there is time; what is left at the end is divided evenly. Each gets a
    /// little.
    pub(super) fn shares(&self, targets: &[String], time: Duration) -> Vec<(String, Duration)> {
        let need = |target: &String| self.targets.get(target).map_or(UNKNOWN_NEED, Run::needs);
        let mut needs: Vec<_> = targets.iter().map(|it| (need(it), it.clone())).collect();
        needs.sort();
        let all: u64 = needs.iter().map(|(need, _)| need).sum();
        let mut left = time.as_secs();
        let more = left.saturating_sub(all) / targets.len().max(1) as u64;
        let shares = needs.into_iter().map(|(need, target)| {
            let share = need.min(left);
            left -= share;
            (
                target,
                Duration::from_secs((share + more).max(LEAST_SECONDS)),
            )
        });
        shares.collect()
    }
}

impl Run {
    /// Returns the executions that there should be in all, by the speed so far.
    fn goal(&self) -> u64 {
        match self.speed() {
            FAST.. => GOAL_FAST,
            _ => GOAL_SLOW,
        }
    }

    fn speed(&self) -> u64 {
        self.executions / self.seconds.max(1)
    }

    /// Returns the seconds that it needs to reach its goal.
    fn needs(&self) -> u64 {
        let missing = self.goal().saturating_sub(self.executions);
        missing / self.speed().max(1)
    }
}

/// Executions each second from which a target counts as fast.
const FAST: u64 = 20_000;
const GOAL_FAST: u64 = 100_000_000;
const GOAL_SLOW: u64 = 1_000_000;
/// Seconds for a target that never ran.
const UNKNOWN_NEED: u64 = 600;
const LEAST_SECONDS: u64 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    fn run(executions: u64, seconds: u64) -> Run {
        let commit = "abc".to_owned();
        Run {
            executions,
            seconds,
            findings: 0,
            commit,
        }
    }

    #[test]
    fn totals_add_up_over_runs() {
        let file = std::env::temp_dir().join(format!("hawser-totals-{}", std::process::id()));
        for expected in [10, 20] {
            let mut totals = Totals::read(&file).unwrap();
            totals.add("wire", run(10, 2));
            totals.write(&file).unwrap();
            let total = &Totals::read(&file).unwrap().targets["wire"];
            assert_eq!(total.executions, expected);
            assert_eq!(total.seconds, expected / 5);
        }
        fs::remove_file(&file).unwrap();
    }

    #[test]
    fn what_reaches_its_goal_soonest_comes_first() {
        let mut totals = Totals::default();
        // Needs 900 s, 1 s and nothing.
        totals.add("slow", run(100_000, 100));
        totals.add("quick", run(99_900_000, 999));
        totals.add("done", run(200_000_000, 100));
        let names = ["slow", "done", "quick"].map(str::to_owned);
        let shares = |seconds: u64| {
            let shares = totals.shares(&names, Duration::from_secs(seconds));
            let shares = shares.into_iter();
            let shares: Vec<_> = shares.map(|(name, time)| (name, time.as_secs())).collect();
            shares
        };
        let expected = [("done", 5), ("quick", 5), ("slow", 299)];
        assert_eq!(
            shares(300),
            expected.map(|(name, time)| (name.to_owned(), time))
        );
        assert!(shares(1201).iter().all(|(_, time)| *time >= 100));
    }
}
