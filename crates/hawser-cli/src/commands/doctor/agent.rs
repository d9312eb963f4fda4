//! What the agent needs of other programs, where the user wants that.

use hawser_config::Config;
use hawser_net::links::list_modems;

use super::check::Check;

pub(super) async fn check(config: &Config) -> Option<Check> {
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
        Err(error) => {
            let remedy = "see that the system's D-Bus runs (`busctl status`)";
            return Some(Check::warn(name, format!("ModemManager: {error}"), remedy));
        }
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
