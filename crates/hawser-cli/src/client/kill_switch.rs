//! `hawser kill-switch`: the rules that keep everything but Hawser off the links.
//!
//! The rules are in the kernel, so the command works whether a daemon runs or not.

use anyhow::bail;
use hawser_config::{CaptureScope, UpConfig};
use hawser_host::kill_switch::{self, Openings};
use hawser_host::lan::check_known;
use hawser_keys::unix_time::UnixTime;
use hawser_link::links::{Link, list_links};
use rustix::process::geteuid;

use crate::args::{Command, KillSwitchAction, KillSwitchArgs};
use crate::setup::{Setup, show};

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

/// Blocks the interfaces that the active kill switch opens and that `hawser up` refuses: they may
/// have become links since the switch was turned on.
pub(crate) async fn shut_refused(config: &UpConfig) -> anyhow::Result<()> {
    let (openings, problems) = checked(config).await;
    if !problems.is_empty() && kill_switch::find().await?.is_some() {
        kill_switch::turn_on(&openings).await?;
        let problems = problems.join("; ");
        tracing::warn!("kill switch now blocks interfaces that it opened: {problems}");
    }
    Ok(())
}

/// Returns the openings that are allowed, and the reasons why others are not.
async fn checked(config: &UpConfig) -> (Openings, Vec<String>) {
    let mut openings = openings(config);
    let problems = match list_links().await {
        Ok(links) => shut(&mut openings.inside, &links, &config.links),
        // Without the list of links, no interface is known to be safe to open.
        Err(error) if !openings.inside.is_empty() => {
            openings.inside.clear();
            vec![format!("can't list the links: {error}")]
        }
        Err(_) => Vec::new(),
    };
    (openings, problems)
}

/// Removes the interfaces that cannot have a network behind them; returns one reason for each.
fn shut(inside: &mut Vec<String>, links: &[Link], wanted: &[String]) -> Vec<String> {
    let mut problems = Vec::new();
    inside.retain(|name| {
        let checked = check_known(std::slice::from_ref(name), links, wanted);
        problems.extend(checked.as_ref().err().map(ToString::to_string));
        checked.is_ok()
    });
    problems
}

/// Returns the networks and interfaces that the configuration exempts from the kill switch.
pub(crate) fn openings(config: &UpConfig) -> Openings {
    let lan = |scope: &CaptureScope| match scope {
        CaptureScope::Lan(name) => Some(name.clone()),
        CaptureScope::System | CaptureScope::Group(_) => None,
    };
    Openings {
        networks: config.kill_switch_allow.clone(),
        inside: config.capture.iter().filter_map(lan).collect(),
    }
}

/// Returns the message about a kill switch that is on.
pub(crate) fn told(since: UnixTime) -> String {
    hawser_control::kill_switch_line(UnixTime::now().since(since))
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
            Ok(Some(_)) => tracing::debug!("the kill switch is on: sockets are marked"),
            Ok(None) => {}
            Err(error) => tracing::debug!(%error, "can't find out whether a kill switch is on"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_have_no_network_behind_it_is_shut_and_the_rest_stays_open() {
        let mut inside = ["eth0", "eth1", "hawser0"].map(str::to_owned).to_vec();
        let problems = shut(&mut inside, &[], &["eth0".to_owned()]);
        assert_eq!(inside, ["eth1"]);
        assert_eq!(
            problems,
            [
                "eth0 is one of the links that are to be used",
                "hawser0 is an interface of Hawser itself"
            ]
        );
    }
}
