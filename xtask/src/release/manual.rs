//! Mandatory contents of a Debian package.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::process::{run, said};

/// What is missing from the program's package. That with the symbols is not looked at.
pub(super) fn faults(package: &Path, version: &str) -> Result<Vec<String>> {
    let name = package.file_name().unwrap_or_default().to_string_lossy();
    if !name.starts_with("hawser_") {
        return Ok(Vec::new());
    }
    let folder = package.with_extension("unpacked");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    run(Command::new("dpkg-deb").arg("-x").arg(package).arg(&folder))?;
    let faults = faults_in(&folder.join("usr"), version);
    fs::remove_dir_all(&folder)?;
    faults
}

fn faults_in(folder: &Path, version: &str) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    let hawser = || Command::new(folder.join("bin/hawser"));
    let said_version = said(hawser().arg("--version"))?;
    if said_version.split(' ').nth(1) != Some(version) {
        faults.push(format!(
            "`hawser --version` says {said_version}, not {version}"
        ));
    }
    let help = said(hawser().arg("--help"))?;
    let commands = commands(&help);
    if commands.is_empty() {
        faults.push("`hawser --help` names no commands".to_owned());
    }
    for command in commands {
        let page = folder.join(format!("share/man/man1/hawser-{command}.1.gz"));
        if !page.is_file() {
            faults.push(format!("`hawser {command}` has no manual page"));
            continue;
        }
        let text = said(Command::new("gzip").arg("-dc").arg(&page))?;
        if !text.contains(&format!("\"hawser {version}\"")) {
            faults.push(format!(
                "the page of `hawser {command}` is not of {version}"
            ));
        }
    }
    let licences = folder.join("share/doc/hawser/THIRD-PARTY-LICENCES.gz");
    let licences = said(Command::new("gzip").arg("-dc").arg(&licences))?;
    if !licences.contains("\ntokio ") {
        faults.push("THIRD-PARTY-LICENCES does not name the crates".to_owned());
    }
    Ok(faults)
}

/// The commands that a help text lists; `help` itself has no page.
fn commands(help: &str) -> Vec<&str> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines = lines.take_while(|line| !line.is_empty());
    let names = lines.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    names
        .filter(|name| !name.is_empty() && *name != "help")
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_from_the_help() {
        let help = "About\n\nCommands:\n  up     Run it\n         on all links\n  why    Say\n  \
                    help   Print\n\nOptions:\n  -h\n";
        assert_eq!(commands(help), ["up", "why"]);
    }
}
