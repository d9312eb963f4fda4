//! Connects the parts with the port, and with the state that the daemon shows.

use std::sync::Arc;
use std::time::Duration;

use hawser_config::CaptureScope;
use hawser_front::connection::Who;
use hawser_front::dialer::ConnectionDialer;
use hawser_front::name_stub::KnownNames;
use hawser_front::packets::InboundFlows;
use hawser_front::proxy::{ProxyConfig, ProxyCounters};
use hawser_link::links::OwnAddresses;
use hawser_net::client::JoinPort;
use parking_lot::Mutex;

use super::greeting::Greeting;
use super::machine::{Facts, Machine};
use super::parts::{Parts, Plan};
use super::port::{self, Port};
use super::subject::ClientSubject;
use crate::Daemon;
use crate::gateway::views::congestion_name;
use crate::proxy::by_name::ByName;
use crate::proxy::lan::{LanCapture, Lans};
use crate::proxy::live_rules::LiveRules;
use crate::proxy::packets::KillSwitchSince;
use crate::takeover::Successor;

/// Serves the proxy port and captured connections: each connection uses one link, a session with
/// the destination if that is a peer, or the gateway.
pub(super) struct Serving<'a> {
    pub(super) daemon: &'a Daemon,
    pub(super) plan: Plan<'a>,
    pub(super) proxy: ProxyConfig,
    pub(super) live_rules: LiveRules,
    /// Programs whose connections are captured in the kernel.
    pub(super) programs: Option<CaptureScope>,
    pub(super) own: OwnAddresses,
    /// The port at which the gateway may connect.
    pub(super) joins: Option<Arc<JoinPort>>,
    pub(super) kill_switch: Option<KillSwitchSince>,
}

impl Serving<'_> {
    /// Serves until the daemon is asked to end, or another process has taken over.
    pub(super) async fn serve(self, lans: Option<Lans>) -> anyhow::Result<Option<Successor>> {
        let parts = Parts::start(&self.plan, self.daemon).await?;
        let served = self.serve_over(&parts, lans).await;
        parts.end().await;
        served
    }

    async fn serve_over(
        self,
        parts: &Parts,
        lans: Option<Lans>,
    ) -> anyhow::Result<Option<Successor>> {
        let (plan, names) = (&self.plan, KnownNames::default());
        let dialer = Arc::new(parts.dialer(plan));
        let lans = lans.map(|lans| lans.take(&dialer, self.own.clone(), plan.rules.clone()));
        let lans = lans.transpose()?.map(Arc::new);
        let facts = self.facts(parts, &dialer, lans.clone(), &names);
        let machine = Machine::start(facts, self.daemon.predecessor().is_some()).await?;
        let opened = match self.take_over(&machine).await {
            Ok(()) => {
                machine.carry();
                port::open(self.proxy.clone(), Arc::clone(&dialer)).await
            }
            Err(error) => Err(error),
        };
        let server = match opened {
            Ok(server) => server.with_datagrams(parts.datagrams(plan)),
            Err(error) => {
                machine.end().await;
                return Err(error);
            }
        };
        let who = self.who(parts);
        let server = match &who {
            Some(who) => server.with_programs_from(who.clone()),
            None => server,
        };
        let greeting = plan.setup.is_at_terminal.then(|| self.greeting());
        let joins = self.joins.clone();
        let port = Port {
            daemon: self.daemon,
            greeting,
            joins: joins.as_deref(),
            by_name: parts.by_name.as_ref(),
        };
        let subject = |counters| self.subject(parts, counters, (lans.as_deref(), who, names));
        port.serve(server, subject, machine).await
    }

    /// Makes the predecessor yield, if there is one.
    async fn take_over(&self, machine: &Machine) -> anyhow::Result<()> {
        if self.daemon.predecessor().is_some() {
            // Wait for a session, so that connections find it. Without the gateway, the predecessor
            // would serve them no better, and packets of hosts need not be held.
            if let Some(gateway) = self.plan.gateway
                && gateway.client.admitted(GATEWAY_PATIENCE).await.is_ok()
            {
                machine.hold().await;
            }
        }
        self.daemon.take_over().await
    }

    /// Returns the part that finds out which programs connect to the proxy port, if possible.
    fn who(&self, parts: &Parts) -> Option<Who> {
        let who = Who::start(self.proxy.max_connections).inspect_err(|error| {
            tracing::warn!(%error, "can't find out which programs connect to the proxy port");
        });
        let (director, rules) = (parts.director(), self.plan.rules.clone());
        // If everything uses the gateway, connections need not wait until their program is known,
        // unless rules need it.
        let matters = move || !director.is_all_by_gateway() || rules.borrow().chooses_ways();
        let rules = self.plan.rules.clone();
        let binds = move || rules.borrow().binds_askers();
        Some(who.ok()?.with_wait_while(matters).with_refusal_while(binds))
    }

    fn greeting(&self) -> Greeting {
        let plan = &self.plan;
        Greeting {
            links: plan.links.clone(),
            wanted: plan.setup.config.up.links.clone(),
            gateway: plan.gateway.map(|it| Arc::clone(&it.client)),
            programs: self.programs.clone(),
            listen: self.proxy.listen,
            has_password: self.proxy.credentials.is_some(),
        }
    }

    fn facts(
        &self,
        parts: &Parts,
        dialer: &Arc<ConnectionDialer>,
        lans: Option<Arc<LanCapture>>,
        names: &KnownNames,
    ) -> Facts {
        let (plan, discovering) = (&self.plan, parts.discovering.as_ref());
        Facts {
            programs: self.programs.clone(),
            gateway: plan.gateway.map(|it| Arc::clone(&it.client)),
            lans,
            connection: plan.setup.config.connection.clone(),
            links: plan.links.clone(),
            rules: plan.rules.clone(),
            reserved: (plan.reserved.clone(), plan.machine.clone()),
            inbound: if plan.setup.config.up.accept_inbound {
                InboundFlows::Accepted
            } else {
                InboundFlows::Refused
            },
            dialer: Arc::clone(dialer),
            director: parts.director(),
            kill_switch: self.kill_switch.clone(),
            names: names.clone(),
            discovered: discovering.map(|it| it.servers.clone()),
            announcing: discovering.and_then(|it| it.announcing.clone()),
            vouched: parts.vouched.clone(),
        }
    }

    fn subject(
        self,
        parts: &Parts,
        proxy: Arc<ProxyCounters>,
        (lans, who, names): (Option<&LanCapture>, Option<Who>, KnownNames),
    ) -> ClientSubject {
        let (plan, discovering) = (self.plan, parts.discovering.as_ref());
        let config = &plan.setup.config;
        ClientSubject {
            client: plan.gateway.map(|it| Arc::downgrade(&it.client)),
            director: parts.director(),
            peers: parts.peering.as_ref().map(|it| it.sessions.clone()),
            held: parts.peering.as_ref().map(|it| it.held.clone()),
            discovered: discovering.map(|it| it.servers.clone()),
            vouched: parts.vouched.clone(),
            announcing: discovering.and_then(|it| it.announcing.clone()),
            named: parts.by_name.as_ref().map(ByName::peers),
            proxy,
            kill_switch: self.kill_switch,
            registration: parts.by_name.as_ref().map(ByName::shown),
            lan: lans.map(LanCapture::counters),
            who,
            names,
            links: plan.links.clone(),
            wanted: config.up.links.clone(),
            rules: Arc::clone(plan.link_rules),
            connection_rules: self.live_rules,
            choice: plan.choice,
            congestion: congestion_name(&config.session),
            standby: Arc::clone(&parts.standby),
            changing: Mutex::default(),
            peer: plan.gateway.map(|it| it.peer.clone()).unwrap_or_default(),
        }
    }
}

/// Longest wait for a session with the gateway before this process takes over.
const GATEWAY_PATIENCE: Duration = Duration::from_secs(8);
