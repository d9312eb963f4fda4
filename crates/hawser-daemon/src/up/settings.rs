//! Checks the settings of `hawser up` before anything is opened.

use std::sync::Arc;

use anyhow::Context as _;
use hawser_config::{CaptureScope, GatewaySource, UpConfig};
use hawser_front::proxy::ProxyConfig;
use hawser_host::kill_switch::KillSwitch;
use hawser_net::client::JoinPort;

use super::scopes;
use crate::kill_switch::openings;
use crate::proxy::links::Links;
use crate::proxy::password;
use crate::proxy::rules::LinkRuleStore;
use crate::proxy::session::{Target, is_enrolled};
use crate::setup::{Setup, Usage};
use crate::takeover::Predecessor;

/// Options of `hawser up` that apply to one start and are not in the configuration.
#[derive(Debug)]
pub struct UpOptions {
    /// Connect directly, even if a gateway is enrolled.
    pub direct: bool,
    /// Invites of peers to enrol with.
    pub peers: Vec<GatewaySource>,
}

/// Returns the gateway; `None` if no gateway is enrolled or `--direct` is set.
pub(super) fn target(
    setup: &Setup,
    options: &UpOptions,
    (config, is_needed): (&UpConfig, bool),
    rules: &LinkRuleStore,
) -> anyhow::Result<Option<Target>> {
    let gateway = config.gateway.as_ref();
    let target = if options.direct {
        None
    } else {
        Target::find(setup, &setup.state, gateway, &config.links, rules)?
    };
    if target.is_none() && is_needed {
        return Err(Usage(scopes::LAN_WITHOUT_GATEWAY.to_owned()).into());
    }
    if target.is_none() && !options.direct && !setup.is_at_terminal {
        tracing::warn!("no gateway is enrolled: each connection goes directly, over one link");
    }
    Ok(target)
}

/// Opens the port at which the gateway may connect, or inherits the predecessor's, if configured.
pub(super) fn join_port(
    config: &UpConfig,
    links: &Links,
    predecessor: Option<&Predecessor>,
) -> anyhow::Result<Option<Arc<JoinPort>>> {
    let Some(port) = config.accept_joins else {
        return Ok(None);
    };
    let predecessor = predecessor.map(Predecessor::to);
    let opened = JoinPort::open(port, config.links.clone(), links.clone(), predecessor);
    let opened = opened.with_context(|| format!("can't accept joins at port {port}"))?;
    tracing::info!(port, "accepting connections of the gateway");
    Ok(Some(Arc::new(opened)))
}

/// Turns the kill switch on, if configured. Returns the kill switch that is on, also an earlier
/// one.
pub(super) async fn kill_switch(
    setup: &Setup,
    options: &UpOptions,
    config: &UpConfig,
) -> anyhow::Result<Option<KillSwitch>> {
    let wrong = |problem: &str| Err(Usage(format!("--kill-switch{problem}")).into());
    if !config.kill_switch {
        let found = KillSwitch::find().await.unwrap_or_else(|error| {
            tracing::debug!(%error, "can't find out whether a kill switch is on");
            None
        });
        if found.is_some() {
            tracing::warn!("a kill switch is on: `hawser kill-switch off` removes it");
        }
        return Ok(found);
    }
    if !config.capture.contains(&CaptureScope::System) {
        return wrong(" needs --capture system: all traffic that is not captured would be blocked");
    }
    if options.direct || (config.gateway.is_none() && !is_enrolled(&setup.state)?) {
        return wrong(" needs a gateway, to carry packets other than captured TCP");
    }
    let turned_on = KillSwitch::turn_on(openings(config)).await;
    let kill_switch = turned_on.context("--kill-switch")?;
    tracing::warn!("the kill switch is on: `hawser kill-switch off` removes it");
    Ok(Some(kill_switch))
}

/// Reads the settings of the port, so that mistakes are reported before anything is opened.
pub(super) fn proxy_config(config: &UpConfig) -> anyhow::Result<ProxyConfig> {
    if config.is_exposed() {
        let listen = config.listen;
        let problem = format!(
            "other machines could use the proxy at {listen}: listen on 127.0.0.1 or [::1], or allow \
             them with --allow-lan"
        );
        return Err(Usage(problem).into());
    }
    if config.lacks_password() {
        let listen = config.listen;
        let problem = format!(
            "other machines can reach {listen}: name a --password-file with the user name and \
             password that clients must give, or allow all machines with --no-password"
        );
        return Err(Usage(problem).into());
    }
    let file = config.password_file.as_deref();
    Ok(ProxyConfig {
        listen: config.listen,
        allow_lan: config.allow_lan,
        credentials: file.map(password::read).transpose()?.map(Arc::new),
        ..ProxyConfig::default()
    })
}
