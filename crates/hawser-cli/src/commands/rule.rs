//! `hawser rule`: lists, tests and changes the rules for connections.

mod report;

use std::path::PathBuf;

use anyhow::bail;
use hawser_config::parse_rules;
use hawser_control::{Request, RuleStatus};
use hawser_keys::store::ClientStore;
use hawser_link::links::LinkMonitor;
use hawser_policy::{Dscp, Facts, Protocol, Rule, RuleSet, Source, User};
use hawser_sched::connection::GatewayUse;
use hawser_text::printable;
use hawser_types::Host;

use crate::args::{RuleAction, RuleAddArgs, RuleArgs, RuleTestArgs};
use crate::client::ask::Conversation;
use crate::client::policy;
use hawser_daemon::config_file::{ConfigFile, absolute};
use hawser_daemon::rule_files::{RuleFiles, Said, edit};
use hawser_daemon::setup::{Setup, Usage, show, show_json};

/// Carries out the action on the rules.
pub(crate) async fn run(setup: &Setup, args: RuleArgs) -> anyhow::Result<()> {
    let action = match args.action {
        RuleAction::Add(args) if args.now => return add_now(setup, *args).await,
        action => action,
    };
    let told = told(setup).await?;
    let mut files = RuleFiles::of(setup);
    let own = absolute(files.config.path());
    let other = told.config.as_ref().filter(|config| **config != own);
    if let (false, Some(config)) = (files.config.is_named(), other) {
        let is_written = match &action {
            RuleAction::Add(_) => true,
            RuleAction::Remove { number } => *number as usize > told.said.rules.len(),
            RuleAction::List { .. } | RuleAction::Test(_) => false,
        };
        // Root does not write to a path that a service user has chosen.
        if is_written {
            let config = config.display();
            let problem = format!(
                "the daemon has a configuration, which can have rules as well: to change rules \
                 there, use `hawser --config {config} rule`"
            );
            return Err(Usage(problem).into());
        }
        files.config = ConfigFile::resolve(Some(config.clone()), &setup.state, false);
    }
    match action {
        RuleAction::List { builtin, table } => list(&files, &told, builtin, table.json).await,
        RuleAction::Test(args) => test(setup, &files, &told, &args),
        RuleAction::Add(args) => {
            if !files.config.is_there() {
                setup.state.prepare()?;
            }
            let (spot, ahead) = (args.spot(), told.said.rules.len());
            let path = edit::add(&files, &args.rule(), &spot, ahead)?;
            show(&format!("added to {}\n", path.display()))
        }
        RuleAction::Remove { number } => remove(setup, &files, &told.said.rules, number).await,
    }
}

async fn add_now(setup: &Setup, args: RuleAddArgs) -> anyhow::Result<()> {
    let rule = edit::text(&args.rule());
    let asked = Request::AddRule { rule, save: false };
    let mut conversation = Conversation::with_daemon(&setup.state).await?;
    conversation.change(&asked).await
}

async fn remove(
    setup: &Setup,
    files: &RuleFiles,
    said: &[Rule],
    number: u32,
) -> anyhow::Result<()> {
    let place = number as usize - 1;
    let (rule, from) = match said.get(place) {
        Some(rule) => {
            let asked = Request::RemoveRule {
                number: number.into(),
                rule: edit::text(rule),
                save: false,
            };
            let mut conversation = Conversation::with_daemon(&setup.state).await?;
            conversation.change(&asked).await?;
            (rule.clone(), "the running daemon".to_owned())
        }
        None => {
            let (rule, path) = edit::remove(files, place + 1, said.len(), None)?;
            (rule, path.display().to_string())
        }
    };
    show(&format!(
        "removed from {from}: {}: {}\n",
        rule.when, rule.then
    ))
}

async fn list(files: &RuleFiles, told: &Told, builtin: bool, json: bool) -> anyhow::Result<()> {
    let set = files.read()?.set(&told.said);
    let shown = |source: Source| builtin || source <= Source::User;
    let present = present_links().await;
    if json {
        return show_json(&report::list_json(&set, shown, present.as_deref()));
    }
    show(&report::list_text(&set, shown, present.as_deref()))
}

fn test(setup: &Setup, files: &RuleFiles, told: &Told, args: &RuleTestArgs) -> anyhow::Result<()> {
    let set: RuleSet = files.read()?.set(&told.said);
    let Some(port) = args.to.port() else {
        bail!("{} has no port", args.to);
    };
    let host = match args.to.host() {
        Host::Ip(_) => None,
        Host::Name(name) => Some(name.as_str()),
    };
    let protocol = if args.udp {
        Protocol::Udp
    } else {
        Protocol::Tcp
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
    let gateway = told.gateway.or_else(|| gateway(setup));
    if args.table.json {
        show_json(&report::test_json(&set, &facts, gateway))
    } else {
        show(&report::test_text(&set, &facts, args.all, gateway))
    }
}

/// Changes made at run time to the daemon of the state directory, if one runs.
#[derive(Default)]
struct Told {
    said: Said,
    /// The daemon's configuration file, if it has one with a printable name.
    config: Option<PathBuf>,
    /// Use of the gateway, if there is one.
    gateway: Option<GatewayUse>,
}

async fn told(setup: &Setup) -> anyhow::Result<Told> {
    let Some(mut conversation) = Conversation::begin(&setup.state).await? else {
        return Ok(Told::default());
    };
    let Some(policy) = policy::ask_if_any(&mut conversation).await? else {
        return Ok(Told::default());
    };
    let is_said = |rule: &&RuleStatus| rule.source == Source::Session.to_string();
    let said = policy.rules.iter().filter(is_said);
    let text: String = said.map(|it| format!("[[rule]]\n{}\n", it.rule)).collect();
    let rules = parse_rules("the daemon's rules", &text)?.into_iter();
    let source = Source::Session;
    let file = policy.file.filter(|file| printable(file) == *file);
    Ok(Told {
        said: Said {
            rules: rules.map(|rule| Rule { source, ..rule }).collect(),
            profile: policy.profile.and_then(|name| name.parse().ok()),
        },
        config: file.map(PathBuf::from),
        gateway: policy.gateway.and_then(|name| name.parse().ok()),
    })
}

/// Returns the use of the gateway, where this machine has enrolled with one.
fn gateway(setup: &Setup) -> Option<GatewayUse> {
    let store = ClientStore::open(&setup.state).ok()?;
    store.default_gateway()?;
    Some(setup.config.connection.gateway)
}

/// Returns the names of the present links; `None` if the links can't be listed.
async fn present_links() -> Option<Vec<String>> {
    let (_monitor, links) = LinkMonitor::start().await.ok()?;
    let links = links.borrow();
    Some(links.iter().map(|link| link.name.clone()).collect())
}
