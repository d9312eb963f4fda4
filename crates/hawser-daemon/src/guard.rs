//! The guard process, which restores the host's settings that a daemon has changed, however the
//! daemon ends.

use std::process::Command;

use anyhow::Context as _;
use hawser_host::guard::Guard;

/// Starts this program again, as a guard.
pub(crate) fn start_guard() -> anyhow::Result<Guard> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("guard");
    Guard::start(command).context("can't start a guard")
}
