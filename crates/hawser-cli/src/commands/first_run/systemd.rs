//! The service manager: root's, or that of a user.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use hawser_daemon::config_file::folder_of_user;

/// `systemctl`, for root's services or for the user's own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Systemd {
    pub(super) of_user: bool,
}

impl Systemd {
    /// Returns whether the manager runs; for root's, by the test of sd_booted(3).
    pub(super) fn runs(self) -> bool {
        if !self.of_user {
            Path::new("/run/systemd/system").is_dir()
        } else {
            self.ask(&["is-system-running"]).is_ok_and(|said| {
                // In any other state the manager runs, such as "degraded".
                !matches!(said.trim(), "" | "offline" | "unknown")
            })
        }
    }

    /// Returns whether a unit starts by itself.
    pub(super) fn is_enabled(self, unit: &str) -> bool {
        self.run(&["is-enabled", "--quiet", unit]).is_ok()
    }

    /// Returns whether the manager knows this unit.
    pub(super) fn has(self, unit: &str) -> bool {
        self.run(&["cat", unit]).is_ok()
    }

    /// Returns the folder of units and drop-ins that do not belong to a package.
    pub(super) fn folder(self) -> anyhow::Result<PathBuf> {
        if !self.of_user {
            Ok("/etc/systemd/system".into())
        } else {
            let folder = folder_of_user(|name| std::env::var_os(name));
            Ok(folder.context("HOME is not set")?.join("systemd/user"))
        }
    }

    /// Runs `systemctl`; an error quotes its output.
    pub(super) fn run(self, arguments: &[&str]) -> anyhow::Result<()> {
        let output = self.command(arguments).output();
        let output = output.context("can't run systemctl")?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("`{}` failed: {}", self.shown(arguments), said.trim());
        }
        Ok(())
    }

    /// Returns the last line that a unit's program has logged, or the command that shows the log.
    pub(super) fn last_words(self, unit: &str) -> String {
        let user = self.of_user.then_some("--user");
        let mut command = Command::new("journalctl");
        command
            .args(user)
            .args(["--no-pager", "--quiet", "--output=cat"]);
        let output = command.args(["--lines=10", "--unit", unit]).output();
        let said = output.map(|it| String::from_utf8_lossy(&it.stdout).into_owned());
        let said = said.unwrap_or_default();
        // The service manager's own lines tell that the unit failed, but not why.
        let of_program = said
            .lines()
            .rev()
            .find_map(|line| line.strip_prefix("hawser: "));
        match (of_program, self.of_user) {
            (Some(line), _) => line.to_owned(),
            (None, true) => format!("`journalctl --user --unit {unit}` says why"),
            (None, false) => format!("`journalctl --unit {unit}` says why"),
        }
    }

    /// Returns the output of `systemctl`, whatever its exit code.
    fn ask(self, arguments: &[&str]) -> anyhow::Result<String> {
        let output = self.command(arguments).output()?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn command(self, arguments: &[&str]) -> Command {
        let mut command = Command::new("systemctl");
        command.args(self.of_user.then_some("--user"));
        command.arg("--no-ask-password").args(arguments);
        command
    }

    fn shown(self, arguments: &[&str]) -> String {
        let user = if self.of_user { "--user " } else { "" };
        format!("systemctl {user}{}", arguments.join(" "))
    }
}
