//! Checks that need another compiler or a tool that not every machine has. If it is missing and
//! can't be installed, they report that and pass.

use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::process::{cargo, run, workspace_root};

/// Builds the workspace with the Rust version that `Cargo.toml` promises, after installing that
/// where it is missing.
pub(crate) fn msrv() -> Result<()> {
    let version = promised_version()?;
    let asked = format!("{version}.0");
    if !works(Command::new("rustup").args(["run", &asked, "rustc", "--version"])) {
        let install = ["toolchain", "install", &asked, "--profile", "minimal"];
        let installed = Command::new("rustup").args(install).status();
        if !installed.is_ok_and(|status| status.success()) {
            return skip(
                "msrv",
                &format!("Rust {asked} can't be installed by rustup"),
            );
        }
    }
    let mut check = of_toolchain(&asked);
    run(check.args(["check", "--workspace", "--locked", "--quiet"]))?;
    eprintln!("the workspace builds with Rust {asked}");
    Ok(())
}

/// Runs the tests of code with `unsafe` that Miri can run: no system calls, no foreign functions.
pub(crate) fn miri() -> Result<()> {
    if !works(of_toolchain("nightly").args(["miri", "--version"])) {
        bail!("Miri is missing: rustup toolchain install nightly --component miri,rust-src");
    }
    for (package, tests) in UNDER_MIRI {
        let mut test = of_toolchain("nightly");
        run(test.args(["miri", "test", "-p", package, "--lib", "--", tests]))?;
    }
    Ok(())
}

/// Checks licences, sources and versions of dependencies, and known faults of them as far as the
/// list of faults can be had.
pub(crate) fn deny() -> Result<()> {
    if !works(cargo().args(["deny", "--version"])) {
        return skip(
            "deny",
            "cargo-deny is missing: cargo install --locked cargo-deny",
        );
    }
    run(cargo().args(["deny", "check", "bans", "licenses", "sources"]))?;
    if !works(cargo().args(["deny", "fetch", "db"])) {
        return skip(
            "deny advisories",
            "the list of known faults can't be fetched",
        );
    }
    run(cargo().args(["deny", "check", "advisories"]))
}

/// Reads `rust-version` of the workspace.
fn promised_version() -> Result<String> {
    let file = workspace_root().join("Cargo.toml");
    let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("rust-version = "));
    let version = line.context("Cargo.toml names no rust-version")?;
    Ok(version.trim_matches('"').to_owned())
}

/// The cargo of another toolchain; this program's own has left its settings in the environment.
pub(crate) fn of_toolchain(toolchain: &str) -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", toolchain, "cargo"]);
    for name in ["CARGO", "RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN"] {
        command.env_remove(name);
    }
    command.current_dir(workspace_root());
    command
}

/// True if the command can be started and succeeds. What it prints is not shown.
pub(crate) fn works(command: &mut Command) -> bool {
    let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

fn skip(what: &str, why: &str) -> Result<()> {
    eprintln!("SKIPPED: {what}: {why}");
    Ok(())
}

/// Packages with `unsafe` code that Miri can run, and which of their tests.
const UNDER_MIRI: [(&str, &str); 1] = [("hawser-capture", "tables::tests")];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_promised_version_is_read_from_the_workspace() {
        let version = promised_version().unwrap();
        assert!(version.starts_with("1."), "{version}");
        assert!(version.split('.').all(|part| part.parse::<u32>().is_ok()));
    }
}
