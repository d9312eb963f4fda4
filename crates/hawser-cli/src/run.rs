//! `hawser run`: one program, whose connections go over every link.

mod child;
mod shimmed;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use hawser_front::bonded::BondDialer;
use hawser_net::links::{LinkMonitor, Routes};
use hawser_policy::{Action, Mode, Rule, RuleSet};
use hawser_sched::connection::Class;
use tokio::sync::watch;

use crate::args::RunArgs;
use crate::direct::Direct;
use crate::rule_files::RuleFiles;
use crate::rules::LinkRules;
use crate::session::Target;
use crate::setup::Setup;
use crate::up::END_PATIENCE;
use shimmed::LeadsOut;

/// Runs the program to its end; its exit code is ours.
///
/// No daemon is needed, and one that runs is not disturbed: the lock of the state directory stays its
/// own.
pub(crate) async fn run(setup: &Setup, args: &RunArgs) -> anyhow::Result<ExitCode> {
    let mut config = setup.config.clone();
    args.apply_to(&mut config);
    setup.state.prepare()?;
    let (_monitor, links) = LinkMonitor::start()
        .await
        .context("can't follow the links")?;
    let rules = LinkRules::open(&config, &setup.state);
    let (gateway, wanted) = (config.up.gateway.as_ref(), &config.up.links);
    let target = match args.mode {
        Mode::Direct => None,
        _ => Target::find(setup, &setup.state, gateway, wanted, &rules)?,
    };
    let leads_out = LeadsOut {
        links: links.clone(),
        wanted: wanted.clone(),
        by_gateway: target.is_some(),
        routes: Routes::default(),
    };
    let Some(target) = target else {
        if args.mode == Mode::Bonded {
            bail!(
                "--mode bonded: no gateway is enrolled; `hawser up --gateway URL` enrols with one"
            );
        }
        let followed = RuleFiles::of(setup).follow()?;
        let followed = match args.class {
            Some(class) => all_of_class(followed, class),
            None => followed,
        };
        let direct = Direct::start(&config, links, &rules, followed);
        let ended = shimmed::run(setup, args, Arc::new(direct.dialer()), leads_out).await;
        direct.finish().await;
        return ended;
    };
    let client = Arc::new(target.connect(&setup.state, links.clone()).await?);
    let keeping = rules.keep(&client, &links);
    let dialer = Arc::new(BondDialer::new(Arc::clone(&client)));
    let ended = shimmed::run(setup, args, dialer, leads_out).await;
    keeping.finish(&client).await;
    client.close(END_PATIENCE).await;
    ended
}

/// The same rules behind one that says of what class every connection is.
fn all_of_class(
    mut rules: watch::Receiver<Arc<RuleSet>>,
    class: Class,
) -> watch::Receiver<Arc<RuleSet>> {
    let first = Rule {
        name: Some("--class".to_owned()),
        then: Action {
            class: Some(class),
            ..Action::default()
        },
        ..Rule::default()
    };
    let behind = move |rules: &RuleSet| {
        let others = rules.rules().iter().cloned();
        Arc::new(RuleSet::new(std::iter::once(first.clone()).chain(others)))
    };
    let (sender, followed) = watch::channel(behind(&rules.borrow_and_update()));
    tokio::spawn(async move {
        while rules.changed().await.is_ok() {
            let changed = behind(&rules.borrow_and_update());
            if sender.send(changed).is_err() {
                return;
            }
        }
    });
    followed
}
