//! Checks of the programs that the agent needs for the configured links.

use hawser_config::Config;
use hawser_control::{LinkStatus, Request};
use hawser_host::modems::list_modems;
use hawser_host::network_manager::{DeviceState, NetworkManager};
use hawser_types::StandbyState;

use super::check::Check;
use crate::client::status;
use hawser_daemon::setup::Setup;

pub(super) async fn check(setup: &Setup) -> Vec<Check> {
    // The daemon may run as another user with fewer permissions.
    let daemon = status::ask(&setup.state, &Request::STATUS_WITHOUT_SESSIONS).await;
    let links = daemon.ok().flatten().map_or_else(Vec::new, |it| it.links);
    let refused = |told: fn(&LinkStatus) -> Option<String>| links.iter().find_map(told);
    let checks = [
        modems(&setup.config, refused(unmeasured)).await,
        standby(&setup.config, refused(unconnectable)).await,
    ];
    checks.into_iter().flatten().collect()
}

/// Returns why the running daemon does not get measurements of a link's signal.
fn unmeasured(link: &LinkStatus) -> Option<String> {
    let reason = link.modem.as_ref()?.reason.as_ref()?;
    Some(format!(
        "the signal of {} is not measured: {reason}",
        link.name
    ))
}

/// Returns why the running daemon cannot have a link connected.
fn unconnectable(link: &LinkStatus) -> Option<String> {
    let standby = link.standby.as_ref()?;
    let is_refused = standby.state == StandbyState::Unavailable || standby.reason.is_some();
    is_refused.then(|| format!("{} is {standby}", link.name))
}

async fn modems(config: &Config, refused: Option<String>) -> Option<Check> {
    let measured = config.links.iter().filter(|it| it.measure_signal.is_some());
    let measured: Vec<&str> = measured.map(|link| link.name.as_str()).collect();
    if measured.is_empty() {
        return None;
    }
    let name = "modems";
    let modems = match list_modems().await {
        Ok(Some(modems)) => modems,
        Ok(None) => {
            let remedy = "install and start it, or take `measure-signal` out of the configuration";
            return Some(Check::warn(name, "ModemManager does not run", remedy));
        }
        Err(error) => return Some(no_bus(name, &format!("ModemManager: {error}"))),
    };
    let is_known = |link: &str| modems.iter().any(|modem| modem.link == link);
    let missing: Vec<_> = measured
        .iter()
        .filter(|link| !is_known(link))
        .copied()
        .collect();
    Some(match (missing.is_empty(), refused) {
        (true, None) => Check::ok(
            name,
            format!("ModemManager knows the modem of {}", measured.join(", ")),
        ),
        (true, Some(refused)) => Check::warn(name, refused, RULES),
        (false, _) => Check::warn(
            name,
            format!(
                "ModemManager knows no modem with the link {}",
                missing.join(" or ")
            ),
            "`mmcli --list-modems` lists the modems; a link's name is among a modem's ports",
        ),
    })
}

async fn standby(config: &Config, refused: Option<String>) -> Option<Check> {
    let links = config.links.iter().filter(|it| it.standby);
    let links: Vec<&str> = links.map(|link| link.name.as_str()).collect();
    if links.is_empty() {
        return None;
    }
    let name = "standby";
    let manager = match NetworkManager::find().await {
        Ok(Some(manager)) => manager,
        Ok(None) => {
            let remedy = "install and start it, or take `standby` out of the configuration";
            return Some(Check::warn(name, "NetworkManager does not run", remedy));
        }
        Err(error) => return Some(no_bus(name, &format!("NetworkManager: {error}"))),
    };
    let devices = match manager.devices(links.iter().copied()).await {
        Ok(devices) => devices,
        Err(error) => return Some(no_bus(name, &format!("NetworkManager: {error}"))),
    };
    let is_managed = |link: &str| {
        let device = devices.get(link);
        device.is_some_and(|it| it.state != DeviceState::Unmanaged)
    };
    Some(
        match (links.iter().find(|link| !is_managed(link)), refused) {
            (Some(missing), _) => Check::warn(
                name,
                format!("NetworkManager does not have {missing}"),
                "`nmcli device` shows what it has; a link needs a connection without autoconnect",
            ),
            (None, Some(refused)) => Check::warn(name, refused, RULES),
            (None, None) => Check::ok(name, format!("NetworkManager has {}", links.join(", "))),
        },
    )
}

fn no_bus(name: &str, finding: &str) -> Check {
    Check::warn(
        name,
        finding,
        "check that the system's D-Bus runs (`busctl status`)",
    )
}

const RULES: &str = "fix the reported cause; a daemon that is not root needs \
                     contrib/polkit/60-hawser.rules (docs/operations.md)";
