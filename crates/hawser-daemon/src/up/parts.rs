//! The parts of the client's end that connections need, in the order in which they start. They end
//! in reverse.

use std::sync::Arc;

use futures_util::future::OptionFuture;
use hawser_capture::mount_point;
use hawser_front::connection::SharedDirector;
use hawser_front::datagram::DatagramPorts;
use hawser_front::dialer::ConnectionDialer;
use hawser_front::peer::{ReservedNames, VouchedServers};
use hawser_front::this_machine::ThisMachine;

use super::enrolled::Enrolled;
use crate::Daemon;
use crate::proxy::agent::{Agent, ShownStandby};
use crate::proxy::by_gateway::ByGateway;
use crate::proxy::by_name::ByName;
use crate::proxy::direct::{ConnectionRules, Direct};
use crate::proxy::discovering::{Discovering, Seeking};
use crate::proxy::links::Links;
use crate::proxy::peering::Peering;
use crate::proxy::registration::Wanted;
use crate::proxy::rules::LinkRuleStore;
use crate::proxy::session::{Choice, END_PATIENCE};
use crate::proxy::vouching;
use crate::setup::Setup;

/// Settings and objects from which the parts are made.
pub(super) struct Plan<'a> {
    pub(super) setup: &'a Setup,
    pub(super) links: &'a Links,
    pub(super) link_rules: &'a Arc<LinkRuleStore>,
    pub(super) rules: ConnectionRules,
    pub(super) gateway: Option<&'a Enrolled>,
    /// Registration of this host's name.
    pub(super) registration: Option<&'a Wanted>,
    pub(super) machine: ThisMachine,
    /// Names in the list of known hosts.
    pub(super) reserved: ReservedNames,
    /// Policies with which new sessions begin.
    pub(super) choice: Choice,
}

/// The parts that are running.
pub(super) struct Parts {
    agent: Agent,
    direct: Direct,
    /// The links on standby.
    pub(super) standby: ShownStandby,
    /// Sessions with enrolled peers, for connections to these peers; `None` if disabled.
    pub(super) peering: Option<Peering>,
    /// This host's name, and hosts that are known by name; `None` if not configured.
    pub(super) by_name: Option<ByName>,
    by_gateway: Option<ByGateway>,
    /// Sessions with servers that were discovered; `None` if not configured.
    pub(super) discovering: Option<Discovering>,
    /// Sessions with servers whose names are checked against vouchers; `None` if not configured.
    pub(super) vouched: Option<VouchedServers>,
}

impl Parts {
    pub(super) async fn start(plan: &Plan<'_>, daemon: &Daemon) -> anyhow::Result<Self> {
        let (setup, config) = (plan.setup, &plan.setup.config);
        let (links, choice) = ((plan.links, plan.link_rules), &plan.choice);
        let mut agent = Agent::start(config, plan.link_rules, plan.links);
        let own_links = plan.links.clone();
        let direct = Direct::start(config, own_links, plan.link_rules, plan.rules.clone()).await;
        let director = direct.director();
        let standby = agent.keep_standby(config, &director, plan.link_rules, plan.links);
        let peering = if config.connection.peers {
            let (wanted, rules) = (&config.up.links, plan.rules.clone());
            Some(Peering::start(setup, wanted, links, rules, choice)?)
        } else {
            None
        };
        let by_name = by_name(plan, daemon, &director)?;
        let by_gateway = plan.gateway.map(|gateway| {
            let client = Arc::clone(&gateway.client);
            ByGateway::start(client, director.clone(), config.connection.gateway)
        });
        let discovering = if config.up.discover {
            let seeking = Seeking {
                setup,
                config: &config.up,
                links,
                group: mount_point(),
                director: director.clone(),
                rules: plan.rules.clone(),
                choice,
                peers: peering.as_ref().map(|it| it.finder.clone()),
            };
            Some(seeking.start()?)
        } else {
            None
        };
        let (of, by) = ((setup, config), (director, plan.machine.clone()));
        let vouched = vouching::start(of, links, by, plan.rules.clone(), choice)?;
        Ok(Self {
            agent,
            direct,
            standby,
            peering,
            by_name,
            by_gateway,
            discovering,
            vouched,
        })
    }

    /// The director of connections.
    pub(super) fn director(&self) -> SharedDirector {
        self.direct.director()
    }

    /// Returns a dialer over the links, and over the sessions of all parts.
    pub(super) fn dialer(&self, plan: &Plan<'_>) -> ConnectionDialer {
        let gateway = self.by_gateway.as_ref().map(ByGateway::dialer);
        let peers = self.peering.as_ref().map(Peering::peers);
        let dialer = self.direct.dialer(gateway, peers);
        let dialer = dialer.with_guarded_machine(plan.machine.clone());
        let dialer = dialer.with_named_hosts(match &self.by_name {
            Some(by_name) => by_name.peers(),
            None => Arc::new(plan.reserved.clone()),
        });
        let dialer = match &self.vouched {
            Some(servers) => dialer.with_vouched_names(Arc::new(servers.clone())),
            None => dialer,
        };
        match &self.discovering {
            Some(discovering) => {
                dialer.with_discovered_servers(Arc::new(discovering.servers.clone()))
            }
            None => dialer,
        }
    }

    /// Returns ports that carry datagrams as the director decides.
    pub(super) fn datagrams(&self, plan: &Plan<'_>) -> Arc<dyn DatagramPorts> {
        let direct = self
            .direct
            .datagrams()
            .with_guarded_machine(plan.machine.clone());
        plan.reserved.guard_ports(match &self.by_gateway {
            Some(gateway) => gateway.datagrams(direct, self.director()),
            None => Arc::new(direct),
        })
    }

    /// Ends the parts: all sessions at once, and then the parts that count their traffic.
    pub(super) async fn end(self) {
        let vouched = OptionFuture::from(self.vouched.as_ref().map(|it| it.close(END_PATIENCE)));
        let discovering = self.discovering.as_ref();
        let discovered = OptionFuture::from(discovering.map(|it| it.servers.close(END_PATIENCE)));
        let peering = self.peering.as_ref();
        let peers = OptionFuture::from(peering.map(|it| it.sessions.close(END_PATIENCE)));
        let named = OptionFuture::from(self.by_name.map(ByName::end));
        tokio::join!(vouched, discovered, named, peers);
        drop(self.by_gateway);
        self.direct.finish().await;
        self.agent.end().await;
    }
}

/// Registers this host's name and finds other hosts by name, if configured.
fn by_name(
    plan: &Plan<'_>,
    daemon: &Daemon,
    director: &SharedDirector,
) -> anyhow::Result<Option<ByName>> {
    let Some(wanted) = plan.registration else {
        return Ok(None);
    };
    let (links, director) = ((plan.links, plan.link_rules), director.clone());
    let gateway = plan.gateway.map(|it| Arc::clone(&it.client));
    let of = (plan.setup, daemon.predecessor());
    let by_name = ByName::start(of, wanted, links, director, &plan.choice, gateway)?;
    if let Some(door) = by_name.door() {
        daemon.set_door(door);
    }
    Ok(Some(by_name))
}
