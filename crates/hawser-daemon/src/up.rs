//! `hawser up`: the proxy port, over a gateway or directly over the links.

mod enrolled;
mod greeting;
mod machine;
mod parts;
mod port;
mod rest;
mod scopes;
mod serving;
mod settings;
mod subject;

use anyhow::Context as _;
use hawser_control::Role;
use hawser_front::this_machine::ThisMachine;
use hawser_host::kill_switch::KillSwitch;
use hawser_link::links::{LinkMonitor, OwnAddresses};

use crate::Daemon;
use crate::proxy::live_rules::LiveRules;
use crate::proxy::peering;
use crate::proxy::registration::Wanted;
use crate::proxy::rules::LinkRuleStore;
use crate::proxy::session::{END_PATIENCE, SessionChoice};
use crate::rule_files::RuleFiles;
use crate::setup::{Setup, missing_links};
use crate::web::Web;
use enrolled::Enrolled;
use parts::Plan;
use scopes::Scopes;
use serving::Serving;
pub use settings::UpOptions;
use settings::{join_port, kill_switch, proxy_config, target};

/// Runs the proxy until the daemon is asked to end. `setup` holds the configuration as the flags
/// have changed it.
///
/// # Errors
/// If the configuration contradicts itself, another daemon runs in the state directory, or a part
/// can't start.
pub async fn run(setup: &Setup, options: &UpOptions) -> anyhow::Result<()> {
    let mut setup = setup.clone();
    let daemon = Daemon::of(&setup, &setup.state, Role::Client).await?;
    if let Some(predecessor) = daemon.predecessor() {
        setup.config.up.listen = predecessor.listen(setup.config.up.listen);
    }
    let (setup, config) = (&setup, &setup.config.up);
    let proxy = proxy_config(config)?;
    let registration = Wanted::read(config)?;
    let scopes = Scopes::of(&config.capture)?;
    let lans = scopes::find_lans(scopes.lans.clone(), config).await?;
    // Turned on before anything is sent.
    let kill_switch = kill_switch(setup, options, config).await?;
    let web = Web::start(config.web, &setup.state, &daemon)?;
    let (_monitor, links) = LinkMonitor::start_without(scopes.lans)
        .await
        .context("can't follow the links")?;
    if let Some(missing) = missing_links(&config.links, &links.borrow()) {
        tracing::warn!("using missing links as soon as they appear: {missing}");
    }
    let own = OwnAddresses::follow()
        .await
        .context("can't follow this machine's addresses")?;
    let live_rules = LiveRules::follow(RuleFiles::of(setup))?;
    let link_rules = LinkRuleStore::open(&setup.config, &setup.state);
    for peer in &options.peers {
        peering::enrol(setup, peer, &config.links, &links, &link_rules)?;
    }
    let mut joins = None;
    let gateway = match target(setup, options, (config, lans.is_some()), &link_rules)? {
        Some(mut target) => {
            joins = join_port(config, &links, daemon.predecessor())?;
            target.config.join_port.clone_from(&joins);
            Some(Enrolled::connect(target, setup, &links, &link_rules).await?)
        }
        None => None,
    };
    let private = setup.config.connection.private_names;
    let serving = Serving {
        daemon: &daemon,
        plan: Plan {
            setup,
            links: &links,
            link_rules: &link_rules,
            rules: live_rules.subscribe(),
            gateway: gateway.as_ref(),
            registration: registration.as_ref(),
            machine: ThisMachine::new(own.clone()).with_private_names(private),
            reserved: setup.reserved_names()?,
            choice: SessionChoice::of(&setup.config.session),
        },
        proxy,
        live_rules,
        programs: scopes.programs,
        own,
        joins,
        kill_switch: kill_switch.as_ref().map(KillSwitch::since),
    };
    let served = serving.serve(lans).await;
    if let Some(gateway) = gateway {
        gateway.end(END_PATIENCE).await;
    }
    web.end().await;
    if kill_switch.is_some_and(|it| it.since().borrow().is_some()) {
        tracing::info!("the kill switch stays on: `hawser kill-switch off` removes it");
    }
    match served? {
        Some(successor) => successor.outlive(daemon.asked_to_end()).await,
        None => Ok(()),
    }
}
