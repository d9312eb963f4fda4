//! `hawser kill-switch`: the rules that keep everything but Hawser off the links.
//!
//! They are the kernel's, so this works whether a daemon runs or not.

use anyhow::bail;
use hawser_config::{CaptureScope, UpConfig};
use hawser_net::kill_switch::{self, Openings};
use hawser_net::lan::check_known;
use hawser_net::links::{Link, list_links};
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
        Some(KillSwitchAction::On) => turn_on(&setup.config.up).await,
        Some(KillSwitchAction::Off) => match kill_switch::remove().await? {
            Some(_) => show("the kill switch is off: all programs use the links again\n"),
            None => show("the kill switch was off already\n"),
        },
    }
}

/// Turns it on. What is inside is open, so it must not be a link: such an interface is shut like
/// all others, and told as a failure. It need not be there yet.
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

/// Shuts the interfaces that a kill switch has open and that `hawser up` refuses: they may have
/// become links since it was turned on.
pub(crate) async fn shut_refused(config: &UpConfig) -> anyhow::Result<()> {
    let (openings, problems) = checked(config).await;
    if !problems.is_empty() && kill_switch::find().await?.is_some() {
        kill_switch::turn_on(&openings).await?;
        let problems = problems.join("; ");
        tracing::warn!("the kill switch is on, and open no more where {problems}");
    }
    Ok(())
}

/// What may stay open, and why the rest may not.
async fn checked(config: &UpConfig) -> (Openings, Vec<String>) {
    let mut openings = openings(config);
    let problems = match list_links().await {
        Ok(links) => shut(&mut openings.inside, &links, &config.links),
        // None of them is known to be inside.
        Err(error) if !openings.inside.is_empty() => {
            openings.inside.clear();
            vec![format!("can't list the links: {error}")]
        }
        Err(_) => Vec::new(),
    };
    (openings, problems)
}

/// Takes out the interfaces that can't have a network behind them; says what is wrong with each.
fn shut(inside: &mut Vec<String>, links: &[Link], wanted: &[String]) -> Vec<String> {
    let mut problems = Vec::new();
    inside.retain(|name| {
        let checked = check_known(std::slice::from_ref(name), links, wanted);
        problems.extend(checked.as_ref().err().map(ToString::to_string));
        checked.is_ok()
    });
    problems
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
