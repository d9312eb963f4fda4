//! `hawser rule`: lists, tests and changes the rules for connections.

mod edit;
mod report;

use anyhow::bail;
use hawser_config::HostPort;
use hawser_net::links::LinkMonitor;
use hawser_net::store::ClientStore;
use hawser_policy::{Dscp, Facts, Protocol, RuleSet, Source, User};
use hawser_sched::connection::GatewayUse;

use crate::args::{RuleAction, RuleArgs, RuleTestArgs};
use crate::rule_files::RuleFiles;
use crate::setup::{Setup, show, show_json};

/// Does what is asked with the rules.
pub(crate) async fn run(setup: &Setup, args: RuleArgs) -> anyhow::Result<()> {
    let files = RuleFiles::of(setup);
    match args.action {
        RuleAction::List { builtin, table } => list(&files, builtin, table.json).await,
        RuleAction::Test(args) => test(setup, &files, &args),
        RuleAction::Add(args) => {
            if files.config.is_none() {
                setup.state.prepare()?;
            }
            let spot = args.spot();
            let path = edit::add(&files, &args.rule(), &spot)?;
            show(&format!("added to {}\n", path.display()))
        }
        RuleAction::Remove { number } => {
            let (rule, path) = edit::remove(&files, number)?;
            let (when, then) = (&rule.when, &rule.then);
            show(&format!(
                "removed from {}: {when}: {then}\n",
                path.display()
            ))
        }
    }
}

async fn list(files: &RuleFiles, builtin: bool, json: bool) -> anyhow::Result<()> {
    let set = files.read()?.set();
    let shown = |source: Source| builtin || source == Source::User;
    let present = present_links().await;
    if json {
        return show_json(&report::list_json(&set, shown, present.as_deref()));
    }
    show(&report::list_text(&set, shown, present.as_deref()))
}

fn test(setup: &Setup, files: &RuleFiles, args: &RuleTestArgs) -> anyhow::Result<()> {
    let set: RuleSet = files.read()?.set();
    let Some(port) = args.to.port() else {
        bail!("{} has no port", args.to);
    };
    let named = |to: &'_ HostPort| to.ip().is_none();
    let host = Some(args.to.host()).filter(|_| named(&args.to));
    let protocol = match args.udp {
        true => Protocol::Udp,
        false => Protocol::Tcp,
    };
    let facts = Facts {
        protocol,
        remote: args.to.ip().or(args.address),
        port,
        domain: args.domain.as_deref().or(host),
        program: args.program.as_deref(),
        executable: args.executable.as_deref(),
        user: args.user.as_ref().map(User::id),
        cgroup: args.cgroup.as_deref(),
        dscp: args.dscp.map(Dscp::value),
    };
    let gateway = gateway(setup);
    match args.table.json {
        true => show_json(&report::test_json(&set, &facts, gateway)),
        false => show(&report::test_text(&set, &facts, args.all, gateway)),
    }
}

/// What the gateway is for, where this machine has enrolled with one.
fn gateway(setup: &Setup) -> Option<GatewayUse> {
    let store = ClientStore::open(&setup.state).ok()?;
    store.default_gateway()?;
    Some(setup.config.connection.gateway)
}

/// The names of the links that are there; none when that can't be told.
async fn present_links() -> Option<Vec<String>> {
    let (_monitor, links) = LinkMonitor::start().await.ok()?;
    let links = links.borrow();
    Some(links.iter().map(|link| link.name.clone()).collect())
}
