//! Programs that the checks start.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The cargo that runs this program.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(workspace_root());
    command
}

/// Runs `command` on this terminal and fails when it does.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("cannot start {}", command.get_program().display()))?;
    if !status.success() {
        let words: Vec<_> = command.get_args().map(|a| a.to_string_lossy()).collect();
        let program = command.get_program().to_string_lossy();
        let program = program.rsplit('/').next().unwrap_or_default();
        bail!("`{program} {}` ended with {status}", words.join(" "));
    }
    Ok(())
}

/// What a command prints, without the end of its last line.
pub(crate) fn said(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_owned();
    let output = command
        .output()
        .with_context(|| format!("cannot start {}", name.display()))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        bail!(
            "{} ended with {}: {}",
            name.display(),
            output.status,
            errors.trim()
        );
    }
    Ok(String::from_utf8(output.stdout)?.trim_end().to_owned())
}

/// The folder that holds the workspace's `Cargo.toml`.
pub(crate) fn workspace_root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own).to_path_buf()
}

/// The folder that cargo builds into.
pub(crate) fn target_folder(root: &Path) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    root.join(target)
}
