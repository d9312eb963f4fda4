//! `hawser kill-switch`: the rules that keep everything but Hawser off the links.
//!
//! They are the kernel's, so this works whether a daemon runs or not.

use anyhow::Context as _;
use hawser_config::{CaptureScope, UpConfig};
use hawser_net::kill_switch::{self, Openings};
use hawser_net::lan::check_known;
use hawser_net::links::list_links;
use hawser_net::unix_time::UnixTime;
use rustix::process::geteuid;

use crate::args::{Command, KillSwitchAction, KillSwitchArgs};
use crate::setup::{Setup, show};

/// Says whether it is on, turns it on, or removes it.
pub(crate) async fn run(setup: &Setup, args: KillSwitchArgs) -> anyhow::Result<()> {
    match args.action {
        None => match kill_switch::find().await? {
            Some(since) => show(&format!("{}\n", told(since))),
            None => show("the kill switch is off\n"),
        },
        Some(KillSwitchAction::On) => {
            let openings = openings(&setup.config.up);
            // What is inside is open, so it may be no link. It need not be there yet.
            let links = list_links().await.context("can't list the links")?;
            check_known(&openings.inside, &links, &setup.config.up.links)
                .context("`capture` in the configuration")?;
            kill_switch::turn_on(&openings).await?;
            show("the kill switch is on: only `hawser up` uses the links\n")
        }
        Some(KillSwitchAction::Off) => match kill_switch::remove().await? {
            Some(_) => show("the kill switch is off: all programs use the links again\n"),
            None => show("the kill switch was off already\n"),
        },
    }
}

/// What the configuration leaves open past a kill switch.
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

/// The line about one that is on.
pub(crate) fn told(since: UnixTime) -> String {
    hawser_control::kill_switch_line(UnixTime::now().since(since))
}

/// Lets the sockets of this process pass a kill switch that is on, as those of `hawser up` do.
/// `hawser up` sees to that itself.
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
    // Others may neither look nor mark.
    if sends && geteuid().is_root() {
        match kill_switch::join().await {
            Ok(Some(_)) => tracing::debug!("the kill switch is on: sockets are marked"),
            Ok(None) => {}
            Err(error) => tracing::debug!(%error, "whether a kill switch is on is not known"),
        }
    }
}
