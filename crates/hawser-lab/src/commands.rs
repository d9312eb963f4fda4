//! The smaller commands.

use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::Context;

use crate::scenario::{self, Scenario};
use crate::topology::{Lab, SERVER};

/// Prints the scenarios of a folder, one a line.
pub(crate) fn list(folder: &Path) -> anyhow::Result<ExitCode> {
    let mut paths = Vec::new();
    let entries = std::fs::read_dir(folder)
        .with_context(|| format!("cannot read the folder {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "toml") {
            paths.push(path);
        }
    }
    paths.sort();
    let mut broken = false;
    for path in paths {
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

/// Prints a line or more; a reader that has gone is no failure.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    match writeln!(io::stdout(), "{}", text.trim_end()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}
