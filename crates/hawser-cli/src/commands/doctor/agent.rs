//! What the agent needs of other programs, where the user wants that.

use hawser_config::Config;
use hawser_net::links::list_modems;
use hawser_net::network_manager::{DeviceState, NetworkManager};

use super::check::Check;

pub(super) async fn check(config: &Config) -> Vec<Check> {
    let checks = [modems(config).await, standby(config).await];
    checks.into_iter().flatten().collect()
}

async fn modems(config: &Config) -> Option<Check> {
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
    Some(match missing.is_empty() {
        true => Check::ok(
            name,
            format!("ModemManager knows that of {}", measured.join(", ")),
        ),
        false => Check::warn(
            name,
            format!(
                "ModemManager knows none with the link {}",
                missing.join(" or ")
            ),
            "`mmcli --list-modems` shows what it knows; a link's name is among a modem's ports",
        ),
    })
}

async fn standby(config: &Config) -> Option<Check> {
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
    for link in &links {
        let problem = match manager.device(link).await {
            Ok(Some(device)) if device.state != DeviceState::Unmanaged => continue,
            Ok(_) => format!("NetworkManager does not have {link}"),
            Err(error) => format!("NetworkManager: {error}"),
        };
        let remedy =
            "`nmcli device` shows what it has; a link needs a connection without autoconnect";
        return Some(Check::warn(name, problem, remedy));
    }
    Some(Check::ok(
        name,
        format!("NetworkManager has {}", links.join(", ")),
    ))
}

fn no_bus(name: &str, finding: &str) -> Check {
    Check::warn(
        name,
        finding,
        "see that the system's D-Bus runs (`busctl status`)",
    )
}
