//! The smaller commands.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::Context;

use crate::output::print;
use crate::scenario::{self, Scenario};
use crate::topology::{Lab, SERVER};
use crate::verdict::{self, Verdict};

/// Prints the scenarios of a folder, one a line.
pub(crate) fn list(folder: &Path) -> anyhow::Result<ExitCode> {
    let mut broken = false;
    for path in files(folder, "toml")? {
        match scenario::load(&path) {
            Ok(scenario) => print(&format!("{:<20} {}", scenario.name, scenario.summary))?,
            Err(error) => {
                broken = true;
                eprintln!("{error}");
            }
        }
    }
    Ok(if broken {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// Prints what the reports of a folder say about what was asked, the files in order of name.
pub(crate) fn verdicts(folder: &Path) -> anyhow::Result<ExitCode> {
    let mut all = Vec::new();
    for path in files(folder, "json")? {
        let text = std::fs::read(&path).with_context(|| path.display().to_string())?;
        let judged: Judged =
            serde_json::from_slice(&text).with_context(|| path.display().to_string())?;
        let name = format!("{} {}", judged.experiment, judged.scenario);
        all.extend(judged.verdicts.into_iter().map(|v| (name.clone(), v)));
    }
    let lines = all.iter().map(|(name, verdict)| (name.as_str(), verdict));
    print(&verdict::lines(lines))?;
    let met = all.iter().filter(|(_, verdict)| verdict.met).count();
    print(&format!("{met} of {} met", all.len()))?;
    Ok(ExitCode::SUCCESS)
}

/// The common fields of reports; a report without bounds has no verdicts.
#[derive(Debug, serde::Deserialize)]
struct Judged {
    experiment: String,
    scenario: String,
    #[serde(default)]
    verdicts: Vec<Verdict>,
}

/// The files of a folder whose names end so, in order.
pub(crate) fn files(folder: &Path, ending: &str) -> anyhow::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    let entries = std::fs::read_dir(folder)
        .with_context(|| format!("cannot read the folder {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|found| found == ending) {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// Runs a command on one host of a fresh lab, with its facts in the environment.
pub(crate) fn exec(
    scenario: &Scenario,
    server: bool,
    command: &[String],
) -> anyhow::Result<ExitCode> {
    let lab = Lab::shaped(scenario)?;
    let (program, arguments) = command.split_first().context("no command given")?;
    let host = if server { lab.server() } else { lab.client() };
    let mut child = host.command(program);
    child.args(arguments);
    describe(&lab, &mut child);
    let status = child
        .status()
        .with_context(|| format!("cannot run {program}"))?;
    Ok(match status.code().map(u8::try_from) {
        Some(Ok(code)) => ExitCode::from(code),
        _ => ExitCode::FAILURE,
    })
}

/// `HAWSER_LAB_*`: the server's address, the links, the client's addresses, the namespaces.
fn describe(lab: &Lab, command: &mut Command) {
    let list = |items: Vec<String>| items.join(" ");
    command
        .env("HAWSER_LAB_SERVER", SERVER.to_string())
        .env(
            "HAWSER_LAB_LINKS",
            list(lab.links().iter().map(|l| l.interface.clone()).collect()),
        )
        .env(
            "HAWSER_LAB_SOURCES",
            list(
                lab.links()
                    .iter()
                    .map(|l| l.address().to_string())
                    .collect(),
            ),
        )
        .env("HAWSER_LAB_CLIENT_NS", lab.client().path())
        .env("HAWSER_LAB_SERVER_NS", lab.server().path());
}
