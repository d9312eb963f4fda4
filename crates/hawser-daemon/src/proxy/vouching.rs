//! Names of `--vouched`, whose servers must have a key that the names' owners vouch for.

use std::sync::Arc;

use hawser_config::{Config, DEFAULT_FRONT_PORT};
use hawser_control::VouchedStatus;
use hawser_front::connection::SharedDirector;
use hawser_front::peer::{VouchedServers, VouchedSettings};
use hawser_front::root_certificates::RootCertificates;
use hawser_front::this_machine::ThisMachine;
use hawser_keys::host_port::HostPort;
use hawser_keys::identity::Identity;
use hawser_keys::store::VoucherStore;
use hawser_keys::unix_time::UnixTime;

use super::direct::ConnectionRules;
use super::links::Links;
use super::peering::PeerClients;
use super::rules::LinkRuleStore;
use super::session::Choice;
use crate::setup::{Setup, Usage};

/// Begins to check the configured names, if any, against their vouchers. Sessions begin with the
/// policies in `choice` at that time.
pub fn start(
    (setup, config): (&Setup, &Config),
    links: (&Links, &Arc<LinkRuleStore>),
    (director, machine): (SharedDirector, ThisMachine),
    rules: ConnectionRules,
    choice: &Choice,
) -> anyhow::Result<Option<VouchedServers>> {
    let up = &config.up;
    if up.vouched.is_empty() {
        return Ok(None);
    }
    let roots = RootCertificates::read(up.vouched_certificates.as_deref());
    let roots = roots.map_err(|error| Usage(format!("vouched-certificates: {error}")))?;
    let clients = PeerClients::new(setup, &up.links, links, choice);
    setup.state.prepare()?;
    if director.is_all_by_gateway() {
        tracing::warn!(
            "not checking names against their vouchers: everything goes through the gateway"
        );
    }
    if !up.capture.is_empty() {
        tell_of_captured();
    }
    Ok(Some(VouchedServers::start(VouchedSettings {
        names: up.vouched.clone(),
        roots,
        store: VoucherStore::open(&setup.state)?,
        director,
        machine,
        port: DEFAULT_FRONT_PORT,
        start: Box::new(move |door, key| {
            // A new key for each session: no server has seen it before or will see it again.
            let identity = Identity::generate();
            let identity = identity
                .inspect_err(|error| tracing::warn!(%error, "can't make a key for a session"))
                .ok()?;
            let door = HostPort::try_from(door).into_iter().collect();
            clients.start_as(identity, key, door, None)
        }),
        rules,
    })))
}

/// Logs which connections of captured programs are not checked against vouchers.
pub fn tell_of_captured() {
    tracing::info!(
        "checking captured programs against vouchers only at addresses that the machine's name \
         servers have given them, not at others (DNS over HTTPS, /etc/hosts, a literal address)"
    );
}

/// Returns the names in the form in which the daemon shows them.
pub(crate) fn status(servers: &VouchedServers) -> Vec<VouchedStatus> {
    let now = UnixTime::now();
    let names = servers.names().into_iter().map(|it| VouchedStatus {
        name: it.name.to_string(),
        ports: it.ports.into_iter().collect(),
        left: it.until.map(|until| until.since(now)),
        is_bonded: it.is_bonded,
        refused: it.refused,
        stale: it.stale,
    });
    names.collect()
}
