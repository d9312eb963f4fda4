//! `hawser doctor`: what would keep bonding from working here.

mod links;
mod state;
mod system;

use std::fmt::Write as _;

use anyhow::bail;
use hawser_net::links::{list_links, usable};
use serde::Serialize;

use crate::args::TableArgs;
use crate::setup::{Setup, show, show_json};

/// Looks everywhere; fails when something would keep bonding from working.
pub(crate) async fn run(setup: &Setup, args: TableArgs) -> anyhow::Result<()> {
    let wanted = &setup.config.up.links;
    let all = list_links().await?;
    let chosen = usable(&all, wanted);
    let mut checks = links::check(&all, &chosen, wanted, setup.config.serve.listen);
    checks.extend(system::check());
    checks.extend(state::check(setup, &chosen).await);
    match args.json {
        true => show_json(&serde_json::json!({ "checks": checks }))?,
        false => show(&text(&checks))?,
    }
    let count = |status| checks.iter().filter(|check| check.status == status).count();
    match (count(Status::Fail), count(Status::Warn)) {
        (0, _) => Ok(()),
        (failed, warned) => bail!("{failed} checks failed, {warned} warned"),
    }
}

/// What one look has shown.
#[derive(Debug, Serialize)]
struct Check {
    /// What was looked at.
    name: String,
    status: Status,
    /// What was found.
    finding: String,
    /// What to do about it.
    remedy: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Status {
    /// All is well.
    Ok,
    /// It works, but not as well as it could.
    Warn,
    /// It does not work.
    Fail,
}

impl Check {
    fn ok(name: impl Into<String>, finding: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            status: Status::Ok,
            finding: finding.into(),
            remedy: None,
        }
    }

    fn warn(
        name: impl Into<String>,
        finding: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            status: Status::Warn,
            remedy: Some(remedy.into()),
            ..Self::ok(name, finding)
        }
    }

    fn fail(
        name: impl Into<String>,
        finding: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            status: Status::Fail,
            ..Self::warn(name, finding, remedy)
        }
    }
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
