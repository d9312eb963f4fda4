//! `hawser run`: runs one program and spreads its connections over every link.

mod child;
mod enclosed;
mod kernel;
mod shimmed;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use hawser_capture::CaptureError;
use hawser_config::Config;
use hawser_front::connection::SharedDirector;
use hawser_front::name_stub::{KnownNames, NameStub};
use hawser_front::peer::VouchedServers;
use hawser_front::this_machine::ThisMachine;
use hawser_link::links::{LinkMonitor, OwnAddresses, Routes};
use hawser_policy::{Action, Mode, Rule, RuleSet};
use hawser_sched::connection::{Class, GatewayUse};
use tokio::sync::watch;

use crate::args::{RunArgs, Via};
use hawser_daemon::proxy::by_gateway::ByGateway;
use hawser_daemon::proxy::direct::{ConnectionRules, Direct};
use hawser_daemon::proxy::discovering::{Discovering, Seeking};
use hawser_daemon::proxy::links::Links;
use hawser_daemon::proxy::live_rules::LiveRules;
use hawser_daemon::proxy::peering::Peering;
use hawser_daemon::proxy::rules::LinkRuleStore;
use hawser_daemon::proxy::session::END_PATIENCE;
use hawser_daemon::proxy::session::{SessionChoice, Target};
use hawser_daemon::proxy::vouching;
use hawser_daemon::rule_files::RuleFiles;
use hawser_daemon::setup::{Setup, Usage, missing_links};
use kernel::{Kernel, Sources};
use shimmed::LeadsOut;

pub(crate) use child::cannot_run;

/// Runs the program to its end, and returns its exit code.
///
/// Needs no daemon and does not disturb a running one, because it does not take the lock of the
/// state directory.
pub(crate) async fn run(setup: &Setup, args: &RunArgs) -> anyhow::Result<ExitCode> {
    if let Some(reason) = args.contradiction() {
        return Err(Usage(reason).into());
    }
    let mut config = setup.config.clone();
    args.apply_to(&mut config);
    setup.state.prepare()?;
    let (_monitor, links) = LinkMonitor::start()
        .await
        .context("can't follow the links")?;
    // The program connects now, so a missing link can't be waited for.
    if let Some(missing) = missing_links(&args.links, &links.borrow()) {
        return Err(Usage(missing).into());
    }
    let rules = LinkRuleStore::open(&config, &setup.state);
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
    if target.is_none()
        && let Some(flag) = needs_gateway(args)
    {
        bail!("{flag}: no gateway is enrolled; `hawser up --gateway URL` enrols with one");
    }
    let kernel = if args.tun { None } else { kernel(args.via)? };
    let live_rules = LiveRules::follow(RuleFiles::of(setup))?;
    let followed = match args.class {
        Some(class) => all_of_class(live_rules.subscribe(), class),
        None => live_rules.subscribe(),
    };
    let direct = Direct::start(&config, links.clone(), &rules, followed.clone()).await;
    let seeking = || (&links, &rules, followed.clone());
    let group = kernel.as_ref().map(Kernel::group);
    let discovering = discovering(setup, (&config, args), seeking(), direct.director(), group)?;
    let own = OwnAddresses::follow().await;
    let own = own.context("can't follow this machine's addresses")?;
    let machine = ThisMachine::new(own).with_private_names(config.connection.private_names);
    let place = (direct.director(), machine.clone());
    let vouched = vouched(setup, (&config, args), seeking(), place)?;
    let (reserved, known) = (setup.reserved_names()?, KnownNames::default());
    let spared = (reserved, machine.clone());
    let names = NameStub::start(direct.director(), spared, known, vouched.clone());
    let sources = Sources {
        machine,
        discovered: discovering.as_ref().map(|it| it.servers.clone()),
        vouched: vouched.clone(),
        names: names.await,
        direct: &direct,
        links: links.clone(),
        rules: followed,
    };
    let ended = match (target, kernel) {
        (None, Some(kernel)) => kernel.run(args, config.connection.scheduler, sources).await,
        (None, None) => {
            let rules = (&rules, sources.rules.clone());
            match peering(setup, (&config, args.mode), &links, rules) {
                Ok(peering) => run_shimmed(setup, args, sources, peering, leads_out).await,
                Err(error) => Err(error),
            }
        }
        (Some(target), kernel) => {
            let how = (setup, args, &config);
            run_with_gateway(how, (target, kernel), &rules, sources, leads_out).await
        }
    };
    if let Some(discovering) = discovering {
        discovering.servers.close(END_PATIENCE).await;
    }
    if let Some(vouched) = vouched {
        vouched.close(END_PATIENCE).await;
    }
    direct.finish().await;
    ended
}

/// Returns the flag that sends everything over a gateway, if it is set.
fn needs_gateway(args: &RunArgs) -> Option<&'static str> {
    match args.mode {
        Mode::Bonded => Some("--mode bonded"),
        _ => args.tun.then_some("--tun"),
    }
}

/// Starts to look for Hawser on servers that this machine has not enrolled with, if configured.
fn discovering(
    setup: &Setup,
    (config, args): (&Config, &RunArgs),
    (links, link_rules, rules): (&Links, &Arc<LinkRuleStore>, ConnectionRules),
    director: SharedDirector,
    group: Option<&Path>,
) -> anyhow::Result<Option<Discovering>> {
    if !config.up.discover || args.mode != Mode::Auto || args.tun {
        return Ok(None);
    }
    let seeking = Seeking {
        setup,
        config: &config.up,
        links: (links, link_rules),
        // This process's own control group contains other programs.
        group: group.map(Path::to_path_buf).ok_or(CaptureError::NoOwnGroup),
        director,
        rules,
        choice: &SessionChoice::of(&config.session),
        peers: None,
    };
    seeking.start().map(Some)
}

/// Starts to check names against their vouchers, if configured; `--mode` and `--tun` prevent that.
fn vouched(
    setup: &Setup,
    (config, args): (&Config, &RunArgs),
    (links, link_rules, rules): (&Links, &Arc<LinkRuleStore>, ConnectionRules),
    place: (SharedDirector, ThisMachine),
) -> anyhow::Result<Option<VouchedServers>> {
    if args.mode != Mode::Auto || args.tun {
        if !config.up.vouched.is_empty() {
            tracing::warn!("ignoring `vouched` with --mode or --tun: no name's voucher is checked");
        }
        return Ok(None);
    }
    if config.up.vouched.is_empty() {
        return Ok(None);
    }
    vouching::tell_of_captured();
    let choice = SessionChoice::of(&config.session);
    vouching::start((setup, config), (links, link_rules), place, rules, &choice)
}

/// Starts to look for peers among destinations, unless that is disabled.
fn peering(
    setup: &Setup,
    (config, mode): (&Config, Mode),
    links: &Links,
    (rules, connection_rules): (&Arc<LinkRuleStore>, ConnectionRules),
) -> anyhow::Result<Option<Peering>> {
    if !config.connection.peers || mode == Mode::Direct {
        return Ok(None);
    }
    let choice = SessionChoice::of(&config.session);
    let (wanted, links) = (&config.up.links, (links, rules));
    Peering::start(setup, wanted, links, connection_rules, &choice).map(Some)
}

/// Runs the program with connections over the gateway or over one link, by the rules and the
/// configuration.
async fn run_with_gateway(
    (setup, args, config): (&Setup, &RunArgs, &Config),
    (target, kernel): (Target, Option<Kernel>),
    rules: &Arc<LinkRuleStore>,
    sources: Sources<'_>,
    leads_out: LeadsOut,
) -> anyhow::Result<ExitCode> {
    let links = &sources.links;
    let client = Arc::new(target.connect(&setup.state, links.clone()).await?);
    let keeping = rules.keep(&client, links);
    let usage = match args.mode {
        Mode::Bonded => GatewayUse::Always,
        _ => config.connection.gateway,
    };
    let by_gateway = ByGateway::start(Arc::clone(&client), sources.direct.director(), usage);
    let dialer = Arc::new(sources.dialer(Some(by_gateway.dialer()), None));
    let ended = match kernel {
        _ if args.tun => enclosed::run(args, &client, sources.names).await,
        Some(kernel) => {
            let how = (config.connection.scheduler, Some(usage));
            kernel.run_bonded(args, dialer, how, sources).await
        }
        None => {
            let by = (dialer, sources.names, sources.vouched);
            shimmed::run(setup, args, by, leads_out).await
        }
    };
    keeping.finish(&client).await;
    client.close(END_PATIENCE).await;
    ended
}

/// Runs the program with the library: each connection uses one link, or a session if the
/// destination is a peer.
async fn run_shimmed(
    setup: &Setup,
    args: &RunArgs,
    sources: Sources<'_>,
    peering: Option<Peering>,
    leads_out: LeadsOut,
) -> anyhow::Result<ExitCode> {
    let peers = peering.as_ref().map(Peering::peers);
    let dialer = Arc::new(sources.dialer(None, peers));
    let by = (dialer, sources.names, sources.vouched);
    let ended = shimmed::run(setup, args, by, leads_out).await;
    if let Some(peering) = peering {
        peering.sessions.close(END_PATIENCE).await;
    }
    ended
}

/// Prepares capturing in the kernel, if that is wanted and possible.
fn kernel(via: Via) -> anyhow::Result<Option<Kernel>> {
    if via == Via::Shim {
        tracing::debug!("capturing connections with the preloaded library, as requested");
        return Ok(None);
    }
    match Kernel::prepare() {
        Ok(kernel) => {
            tracing::debug!("capturing connections in the kernel");
            Ok(Some(kernel))
        }
        Err(error) if via == Via::Kernel => Err(error).context("--via kernel"),
        Err(error) => {
            tracing::debug!(%error, "can't capture connections in the kernel, \
                falling back to the preloaded library");
            Ok(None)
        }
    }
}

/// Returns the rules with a first rule that sets the class of every connection.
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
