//! Runs the tests and reports those that did not really run.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, bail};

use crate::partition;
use crate::process::target_folder;
use crate::tiers::{self, Tier};

/// Runs the tests of a tier on this terminal, then adds up.
pub(crate) fn run(root: &Path, tier: &Tier) -> Result<()> {
    let target = target_folder(root);
    let log = target.join("hawser-skipped.log");
    // Tests that fail leave their logs there.
    let logs = target.join("test-logs");
    // A line left by an earlier run would be counted again.
    for (path, removed) in [
        (&log, std::fs::remove_file(&log)),
        (&logs, std::fs::remove_dir_all(&logs)),
    ] {
        match removed {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| path.display().to_string());
            }
            _ => {}
        }
    }
    #[cfg(target_os = "linux")]
    crate::leftovers::adopt();
    let mut tally = Tally::default();
    let mut failed = None;
    for mut command in tiers::commands(tier) {
        let mut child = command
            .env(SKIP_LOG, &log)
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start cargo test")?;
        let output = child.stdout.take().context("cargo test has no output")?;
        let reader = std::thread::spawn(move || pass_on(output, tally));
        let status = child.wait()?;
        #[cfg(target_os = "linux")]
        for process in crate::leftovers::end() {
            println!("left behind by a test, and ended now: {process}");
        }
        tally = reader.join().unwrap_or_default();
        failed = failed.or((!status.success()).then_some(status));
    }
    for line in std::fs::read_to_string(&log).unwrap_or_default().lines() {
        tally.read(line);
    }
    println!("{tally}");
    if let Some(status) = failed {
        bail!("`cargo test` ended with {status}");
    }
    Ok(())
}

/// Shows what the tests say, and adds it up.
fn pass_on(output: impl Read, mut tally: Tally) -> Tally {
    for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        // The reader of the output may stop reading; the tests go on.
        let _ = writeln!(std::io::stdout(), "{line}");
        tally.read(&line);
    }
    tally
}

/// What a run of the tests came to.
#[derive(Default, Debug, PartialEq, Eq)]
struct Tally {
    passed: u64,
    failed: u64,
    ignored: u64,
    /// Tests that passed without having tested anything, and why.
    skipped: BTreeMap<String, String>,
    /// The first lines of what each failed test said.
    said: BTreeMap<String, Vec<String>>,
    /// The failed test whose words are being read.
    saying: Option<String>,
    /// The last result with tests that were filtered out.
    of_part: Option<String>,
}

impl Tally {
    fn read(&mut self, line: &str) {
        if let Some(name) = line
            .strip_prefix("---- ")
            .and_then(|rest| rest.strip_suffix(" stdout ----"))
        {
            self.said.insert(name.to_owned(), Vec::new());
            self.saying = Some(name.to_owned());
        } else if line == "failures:" || line.starts_with("test result: ") {
            self.saying = None;
        } else if let Some(said) = self.saying.as_ref().and_then(|it| self.said.get_mut(it))
            && (said.len() < SAID && !line.is_empty() || line.starts_with(KEPT))
        {
            said.push(line.to_owned());
        }
        if let Some(rest) = line.strip_prefix("test result: ") {
            let counts = rest.split_once(". ").map_or("", |(_, counts)| counts);
            // Of a test that ran its own program once more, or of a part: the next line tells.
            if counts.contains("filtered out") && !counts.contains("; 0 filtered out") {
                self.of_part = Some(counts.to_owned());
            } else {
                self.count(counts);
            }
        } else if line == partition::END {
            if let Some(counts) = self.of_part.take() {
                self.count(&counts);
            }
        } else if let Some((name, reason)) = line
            .strip_prefix("SKIPPED: ")
            .and_then(|rest| rest.split_once(": "))
        {
            self.skipped.insert(name.to_owned(), reason.to_owned());
        }
    }

    /// Adds the numbers of a program's result.
    fn count(&mut self, counts: &str) {
        for count in counts.split(';') {
            match count.trim().split_once(' ') {
                Some((number, "passed")) => self.passed += number.parse().unwrap_or(0),
                Some((number, "failed")) => self.failed += number.parse().unwrap_or(0),
                Some((number, "ignored")) => self.ignored += number.parse().unwrap_or(0),
                _ => {}
            }
        }
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let skipped = self.skipped.len();
        write!(
            f,
            "all together: {} passed, {} failed, {} ignored, {skipped} skipped",
            self.passed.saturating_sub(skipped as u64),
            self.failed,
            self.ignored,
        )?;
        for (name, reason) in &self.skipped {
            write!(f, "\n  skipped {name}: {reason}")?;
        }
        for (name, said) in &self.said {
            write!(f, "\n  failed {name}:")?;
            for line in said {
                write!(f, "\n    {line}")?;
            }
        }
        Ok(())
    }
}

/// Names the file to which a test that cannot run appends `SKIPPED: <test name>: <reason>`.
const SKIP_LOG: &str = "HAWSER_SKIP_LOG";
/// Begins the line of a failed test that says where the logs of its programs are; see `TestFolder`
/// of `hawser-skip`.
const KEPT: &str = "logs are kept in ";
/// Lines of a failed test that stand once more at the end: those of its panic, and some of what
/// follows.
const SAID: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_up_results_and_takes_skipped_ones_out() {
        let mut tally = Tally::default();
        for line in [
            "running 3 tests",
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s",
            "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out",
            "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 10 filtered out",
            "SKIPPED: lab::black_hole: needs namespaces: no permission",
            "SKIPPED: lab::black_hole: needs namespaces: no permission",
        ] {
            tally.read(line);
        }
        assert_eq!(
            tally.to_string(),
            "all together: 3 passed, 2 failed, 1 ignored, 1 skipped\n  \
             skipped lab::black_hole: needs namespaces: no permission"
        );
    }

    #[test]
    fn results_of_a_part_count_and_those_of_tests_that_run_themselves_do_not() {
        let mut tally = Tally::default();
        for line in [
            "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 9 filtered out",
            "test result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured; 6 filtered out",
            partition::END,
            "test result: ok. 4 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out",
            partition::END,
        ] {
            tally.read(line);
        }
        assert_eq!((tally.passed, tally.failed, tally.ignored), (6, 1, 1));
    }

    #[test]
    fn what_failed_tests_said_stands_at_the_end() {
        let mut tally = Tally::default();
        let begin = [
            "test lab::black_hole ... FAILED",
            "failures:",
            "",
            "---- lab::black_hole stdout ----",
            "",
            "thread 'lab::black_hole' panicked at lab.rs:7:5:",
        ];
        let end = [
            "logs are kept in /target/test-logs/lab.black_hole/1-a",
            "",
            "failures:",
            "    lab::black_hole",
        ];
        let long = (1..100).map(|_| "stack");
        for line in begin.into_iter().chain(long).chain(end) {
            tally.read(line);
        }
        tally
            .read("test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out");
        let said = tally.to_string();
        let said: Vec<_> = said.lines().collect();
        assert_eq!(said[1], "  failed lab::black_hole:");
        assert_eq!(
            said[2],
            "    thread 'lab::black_hole' panicked at lab.rs:7:5:"
        );
        assert_eq!((said.len(), said[13]), (3 + SAID, "    stack"));
        assert_eq!(
            said[14],
            "    logs are kept in /target/test-logs/lab.black_hole/1-a"
        );
    }

    #[test]
    fn other_lines_count_nothing() {
        let mut tally = Tally::default();
        for line in [
            "",
            "test result: ",
            "test result: ok. x passed",
            "SKIPPED: ",
            "SKIPPED: a",
        ] {
            tally.read(line);
        }
        assert_eq!(tally, Tally::default());
    }
}
