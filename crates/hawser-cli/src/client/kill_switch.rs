//! `hawser kill-switch`: the rules that keep everything but Hawser off the links.
//!
//! The rules are in the kernel, so the command works whether a daemon runs or not.

use anyhow::bail;
use hawser_config::UpConfig;
use hawser_daemon::kill_switch::checked;
use hawser_daemon::setup::{Setup, show};
use hawser_host::kill_switch;
use hawser_keys::unix_time::UnixTime;
use rustix::process::geteuid;

use crate::args::{Command, KillSwitchAction, KillSwitchArgs};

/// Shows whether the kill switch is on, turns it on, or removes it.
pub(crate) async fn run(setup: &Setup, args: KillSwitchArgs) -> anyhow::Result<()> {
    match args.action {
        None => match kill_switch::find().await? {
            Some(since) => show(&format!("{}\n", told(since))),
            None => show("the kill switch is off\n"),
        },
        Some(KillSwitchAction::On) => turn_on(&setup.config.up).await,
        Some(KillSwitchAction::Off) => match kill_switch::remove().await? {
            Some(_) => show("the kill switch is off: all programs use the links again\n"),
            None => show("the kill switch was off already\n"),
        },
    }
}

/// Turns the kill switch on. Interfaces with captured hosts stay open, so they must not be links:
/// a link among them is blocked, and the command fails. The interface may appear later.
async fn turn_on(config: &UpConfig) -> anyhow::Result<()> {
    let (openings, problems) = checked(config).await;
    kill_switch::turn_on(&openings).await?;
    show("the kill switch is on: only `hawser up` uses the links\n")?;
    if !problems.is_empty() {
        let problems = problems.join("; ");
        bail!("`capture` in the configuration: {problems}; only Hawser's traffic leaves there");
    }
    Ok(())
}

/// Returns the message about a kill switch that is on.
pub(crate) fn told(since: UnixTime) -> String {
    hawser_text::kill_switch_line(UnixTime::now().since(since))
}

/// Marks the sockets of this process so that an active kill switch passes them. `hawser up` marks
/// its sockets itself.
pub(crate) async fn join(command: &Command) {
    let sends = matches!(
        command,
        Command::Serve(_)
            | Command::Run(_)
            | Command::Send(_)
            | Command::Receive(_)
            | Command::Bench(_)
            | Command::Doctor(_)
    );
    // Only root may read the kernel's rules and mark sockets.
    if sends && geteuid().is_root() {
        match kill_switch::join().await {
            Ok(Some(_)) => tracing::debug!("marking sockets to pass the active kill switch"),
            Ok(None) => {}
            Err(error) => tracing::debug!(%error, "can't find out whether a kill switch is on"),
        }
    }
}
