//! `cargo xtask fuzz`: runs every fuzz target in turn, and adds up what they did.

mod totals;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::process::run;
use crate::toolchains::{of_toolchain, works};
use totals::{Run, Totals};

/// Runs all targets for so many minutes together, or only the one that is named; so many at once.
pub(crate) fn fuzz(root: &Path, minutes: &str, only: Option<&str>, jobs: &str) -> Result<()> {
    let number = |option: &str, text: &str| {
        text.parse::<u64>()
            .ok()
            .filter(|number| *number > 0)
            .with_context(|| format!("{option} {text}: a whole number above 0 is expected"))
    };
    let (minutes, jobs) = (number("--minutes", minutes)?, number("--jobs", jobs)?);
    check_tools()?;
    let mut targets = targets(root)?;
    if let Some(only) = only {
        targets.retain(|target| target == only);
        if targets.is_empty() {
            bail!("there is no fuzz target {only}: see `fuzz/fuzz_targets/`");
        }
    }
    let programs = build(root)?;
    let file = root.join("bench/fuzz/totals.json");
    let totals = Totals::read(&file)?;
    let commit = commit(root)?;
    let shares = totals.shares(&targets, Duration::from_secs(minutes * 60 * jobs));
    let (queue, totals) = (Mutex::new(shares.into_iter()), Mutex::new(totals));
    let failed = Mutex::new(Vec::new());
    let work = || -> Result<()> {
        loop {
            let next = queue.lock().expect("no job panicked").next();
            let Some((target, time)) = next else {
                return Ok(());
            };
            let run = run_target(root, &programs.join(&target), &target, time, &commit)?;
            if run.findings > 0 {
                failed.lock().expect("no job panicked").push(target.clone());
            }
            let mut totals = totals.lock().expect("no job panicked");
            println!("{}", totals.add(&target, run));
            totals.write(&file)?;
        }
    };
    thread::scope(|scope| {
        let jobs: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        let ended = jobs
            .into_iter()
            .map(|job| job.join().expect("no job panicked"));
        ended.collect::<Result<Vec<_>>>()
    })?;
    let failed = failed.into_inner().expect("no job panicked");
    if !failed.is_empty() {
        bail!(
            "findings in {}; their inputs are in fuzz/artifacts/",
            failed.join(", ")
        );
    }
    Ok(())
}

/// Fails with what to install when the fuzzer or the compiler that it needs is missing.
fn check_tools() -> Result<()> {
    if !works(Command::new("rustup").args(["run", "nightly", "rustc", "--version"])) {
        bail!(
            "the nightly compiler is missing: rustup toolchain install nightly --profile minimal"
        );
    }
    if !works(of_toolchain("nightly").args(["fuzz", "--version"])) {
        bail!("cargo-fuzz is missing: cargo install cargo-fuzz");
    }
    Ok(())
}

/// Returns the names of all targets, in order.
fn targets(root: &Path) -> Result<Vec<String>> {
    let folder = root.join("fuzz/fuzz_targets");
    let mut names = Vec::new();
    for file in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        let path = file?.path();
        if path.extension().is_some_and(|extension| extension == "rs")
            && let Some(name) = path.file_stem()
        {
            names.push(name.to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Builds all targets and returns the folder that they are in.
///
/// They have no address sanitizer: what they run forbids `unsafe`, and is up to five times faster
/// so. Overflows and debug assertions are checked. Comparisons are not traced: what texts are
/// compared with stands in [`dictionary`], and parsers are up to three times faster so.
fn build(root: &Path) -> Result<PathBuf> {
    run(of_toolchain("nightly").args([
        "fuzz",
        "build",
        "--sanitizer",
        "none",
        "--no-trace-compares",
    ]))?;
    let about = Command::new("rustup")
        .args(["run", "nightly", "rustc", "-vV"])
        .output()?;
    let about = String::from_utf8_lossy(&about.stdout).into_owned();
    let host = about.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.context("rustc does not name its host")?;
    Ok(root.join("fuzz/target").join(host).join("release"))
}

/// Runs one target. New inputs go below the target folder, so that the committed corpus stays as it
/// is.
fn run_target(
    root: &Path,
    program: &Path,
    target: &str,
    time: Duration,
    commit: &str,
) -> Result<Run> {
    let found = root.join("fuzz/target/corpus").join(target);
    let artifacts = root.join("fuzz/artifacts").join(target);
    for folder in [&found, &artifacts] {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    eprintln!("== {target}, {} s", time.as_secs());
    let mut command = Command::new(program);
    command.arg(format!("-artifact_prefix={}/", artifacts.display()));
    command.arg(format!("-max_total_time={}", time.as_secs().max(1)));
    command.args(["-print_final_stats=1", "-timeout=100", "-rss_limit_mb=2048"]);
    if let Some(words) = dictionary(target) {
        let file = root.join("fuzz/dictionaries").join(words);
        command.arg(format!("-dict={}", file.display()));
    }
    command.arg(&found);
    let committed = root.join("fuzz/corpus").join(target);
    command.args(committed.is_dir().then_some(committed));
    let began = Instant::now();
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| program.display().to_string())?;
    let report = String::from_utf8_lossy(&output.stderr);
    let findings = u64::from(!output.status.success());
    if findings > 0 {
        let tail: Vec<_> = report.lines().rev().take(TAIL).collect();
        tail.iter().rev().for_each(|line| eprintln!("{line}"));
    }
    Ok(Run {
        executions: executions(&report),
        seconds: began.elapsed().as_secs(),
        findings,
        commit: commit.to_owned(),
    })
}

/// Returns the file with the words that the inputs of a target consist of, if they are text.
fn dictionary(target: &str) -> Option<&'static str> {
    let (kind, rest) = target.split_once('_').unwrap_or((target, ""));
    match kind {
        "config" | "rules" => Some("toml.dict"),
        "control" => Some("json.dict"),
        "front" if rest.starts_with("http") => Some("http.dict"),
        "sip" => Some("sip.dict"),
        "voucher" => Some("voucher.dict"),
        _ => None,
    }
}

/// Reads the number of executions from a fuzzer's report.
fn executions(report: &str) -> u64 {
    let line = |line: &str| {
        line.strip_prefix("stat::number_of_executed_units:")?
            .trim()
            .parse()
            .ok()
    };
    report.lines().find_map(line).unwrap_or(0)
}

fn commit(root: &Path) -> Result<String> {
    let output = Command::new("git")
        .args(["rev-parse", "--short", "HEAD"])
        .current_dir(root)
        .output()
        .context("cannot start git")?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Lines of a fuzzer's report that are shown when it has found something.
const TAIL: usize = 40;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_number_of_executions_is_read_from_the_fuzzers_report() {
        let report = "Done 12 runs\nstat::number_of_executed_units: 1234\nstat::peak_rss_mb: 40";
        assert_eq!(executions(report), 1234);
        assert_eq!(executions("nothing"), 0);
    }

    #[test]
    fn every_dictionary_is_there_and_is_used() {
        let root = crate::process::workspace_root();
        let targets = targets(&root).unwrap();
        let used: BTreeSet<_> = targets
            .iter()
            .filter_map(|target| dictionary(target))
            .map(str::to_owned)
            .collect();
        let files = fs::read_dir(root.join("fuzz/dictionaries")).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        assert_eq!(names.collect::<BTreeSet<_>>(), used);
    }

    #[test]
    fn every_target_is_a_program_of_the_fuzzers_workspace() {
        let root = crate::process::workspace_root();
        let manifest = fs::read_to_string(root.join("fuzz/Cargo.toml")).unwrap();
        for target in targets(&root).unwrap() {
            let path = format!("path = \"fuzz_targets/{target}.rs\"");
            assert!(manifest.contains(&path), "{target}");
        }
    }
}
