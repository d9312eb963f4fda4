//! Runs the tests and reports those that did not really run.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, bail};

use crate::tiers::{self, Tier};

/// Runs the tests of a tier on this terminal, then adds up.
pub(crate) fn run(root: &Path, tier: &Tier) -> Result<()> {
    let log = skip_log(root);
    // A line left by an earlier run would be counted again.
    match std::fs::remove_file(&log) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| log.display().to_string());
        }
        _ => {}
    }
    #[cfg(target_os = "linux")]
    crate::leftovers::adopt();
    let mut child = tiers::command(tier)
        .env(SKIP_LOG, &log)
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start cargo test")?;
    let output = child.stdout.take().context("cargo test has no output")?;
    let reader = std::thread::spawn(move || pass_on(output));
    let status = child.wait()?;
    #[cfg(target_os = "linux")]
    for process in crate::leftovers::end() {
        println!("left behind by a test, and ended now: {process}");
    }
    let mut tally = reader.join().unwrap_or_default();
    for line in std::fs::read_to_string(&log).unwrap_or_default().lines() {
        tally.read(line);
    }
    println!("{tally}");
    if !status.success() {
        bail!("`cargo test` ended with {status}");
    }
    Ok(())
}

/// Shows what the tests say, and adds it up.
fn pass_on(output: impl Read) -> Tally {
    let mut tally = Tally::default();
    for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        // The reader of the output may stop reading; the tests go on.
        let _ = writeln!(std::io::stdout(), "{line}");
        tally.read(&line);
    }
    tally
}

fn skip_log(root: &Path) -> std::path::PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    root.join(target).join("hawser-skipped.log")
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
            && said.len() < SAID
            && !line.is_empty()
        {
            said.push(line.to_owned());
        }
        if let Some(rest) = line.strip_prefix("test result: ") {
            let counts = rest.split_once(". ").map_or("", |(_, counts)| counts);
            // Nothing is filtered out here: this is a test that ran its own program once more.
            if counts.contains("filtered out") && !counts.contains("; 0 filtered out") {
                return;
            }
            for count in counts.split(';') {
                match count.trim().split_once(' ') {
                    Some((number, "passed")) => self.passed += number.parse().unwrap_or(0),
                    Some((number, "failed")) => self.failed += number.parse().unwrap_or(0),
                    Some((number, "ignored")) => self.ignored += number.parse().unwrap_or(0),
                    _ => {}
                }
            }
        } else if let Some((name, reason)) = line
            .strip_prefix("SKIPPED: ")
            .and_then(|rest| rest.split_once(": "))
        {
            self.skipped.insert(name.to_owned(), reason.to_owned());
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
        let end = ["", "failures:", "    lab::black_hole"];
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
        assert_eq!((said.len(), said[13]), (2 + SAID, "    stack"));
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
