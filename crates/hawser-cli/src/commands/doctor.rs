//! `hawser doctor`: checks for everything that would prevent bonding on this machine.

mod agent;
mod check;
mod links;
mod state;
mod system;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use anyhow::bail;
use hawser_config::FrontPort;
use hawser_host::kill_switch;
use hawser_host::port_rules::led_elsewhere;
use hawser_keys::unix_time::UnixTime;
use hawser_link::links::{list_links, usable};
use hawser_text::span;

use crate::args::TableArgs;
use check::{Check, Status};
use hawser_daemon::setup::{Setup, show, show_json};

/// Runs all checks; fails if one of them finds a problem that prevents bonding.
pub(crate) async fn run(setup: &Setup, args: TableArgs) -> anyhow::Result<()> {
    let wanted = &setup.config.up.links;
    let all = list_links().await?;
    let chosen = usable(&all, wanted);
    let mut checks = links::check(&all, &chosen, wanted, setup.config.serve.listen);
    checks.extend(system::check(&setup.config.serve.front.ports));
    checks.extend(redirects(&setup.config.serve.front.ports).await);
    checks.extend(kill_switch().await);
    checks.extend(agent::check(setup).await);
    checks.extend(state::check(setup, &chosen).await);
    if args.json {
        show_json(&serde_json::json!({ "checks": checks }))?;
    } else {
        show(&text(&checks))?;
    }
    let count = |status| checks.iter().filter(|check| check.status == status).count();
    match (count(Status::Fail), count(Status::Warn)) {
        (0, _) => Ok(()),
        (1, warned) => bail!("1 check failed, {warned} warned"),
        (failed, warned) => bail!("{failed} checks failed, {warned} warned"),
    }
}

/// Warns of a kill switch that is on: a forgotten one explains why the network is unreachable.
async fn kill_switch() -> Option<Check> {
    let since = kill_switch::find().await.ok()??;
    let age = span(UnixTime::now().since(since));
    Some(Check::warn(
        "kill switch",
        format!("on for {age}: only what Hawser carries leaves this machine"),
        "if you do not want that, run `hawser kill-switch off`",
    ))
}

/// Warns of address translation that redirects a fronted port: such connections get no bond.
async fn redirects(fronted: &[FrontPort]) -> Vec<Check> {
    let ports: BTreeSet<u16> = fronted.iter().map(|it| it.port).collect();
    let led = if ports.is_empty() {
        None
    } else {
        led_elsewhere(ports).await
    };
    let check = |(port, to): (u16, Option<u16>)| {
        let to = to.map_or_else(|| "another port".to_owned(), |to| format!("port {to}"));
        Check::warn(
            "fronted ports",
            format!(
                "a rule of address translation leads port {port} to {to}: connections to port \
                 {port} have no bond from their beginning, and its service is not reached over \
                 sessions"
            ),
            format!("front {to} where that is open to all, or remove the rule"),
        )
    };
    led.into_iter().flatten().map(check).collect()
}

fn text(checks: &[Check]) -> String {
    let mut text = String::new();
    for check in checks {
        let mark = match check.status {
            Status::Ok => "ok  ",
            Status::Warn => "warn",
            Status::Fail => "FAIL",
        };
        let (name, finding) = (&check.name, &check.finding);
        let _ = writeln!(text, "{mark}  {name}: {finding}");
        if let Some(remedy) = &check.remedy {
            let _ = writeln!(text, "      -> {remedy}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remedy_stands_below_its_finding() {
        let checks = [
            Check::ok("clock", "it is 2026"),
            Check::fail("links", "none", "plug one in"),
        ];
        let expected = "ok    clock: it is 2026\nFAIL  links: none\n      -> plug one in\n";
        assert_eq!(text(&checks), expected);
    }
}
