//! `hawser up`: starts the parts of the client's end in order, and ends them in reverse.

mod enrolled;
mod greeting;
mod machine;
mod rest;
mod scopes;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use hawser_capture::mount_point;
use hawser_config::{CaptureScope, Config, GatewaySource, UpConfig};
use hawser_control::Role;
use hawser_front::connection::{SharedDirector, Who};
use hawser_front::datagram::DatagramPorts;
use hawser_front::dialer::ConnectionDialer;
use hawser_front::packets::InboundFlows;
use hawser_front::peer::{DiscoveredServers, ReservedNames, VouchedServers};
use hawser_front::proxy::{ProxyConfig, ProxyError, ProxyServer};
use hawser_front::this_machine::ThisMachine;
use hawser_host::kill_switch::KillSwitch;
use hawser_link::inherited::take_listener;
use hawser_link::links::{LinkMonitor, OwnAddresses};
use hawser_net::client::JoinPort;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::kill_switch::openings;
use crate::proxy::agent::Agent;
use crate::proxy::by_gateway::ByGateway;
use crate::proxy::by_name::ByName;
use crate::proxy::direct::{ConnectionRules, Direct};
use crate::proxy::discovering::{Discovering, Seeking};
use crate::proxy::lan::Lans;
use crate::proxy::links::Links;
use crate::proxy::live_rules::LiveRules;
use crate::proxy::password;
use crate::proxy::peering::{self, Peering};
use crate::proxy::registration::Wanted;
use crate::proxy::rules::LinkRuleStore;
use crate::proxy::session::{Choice, Target, is_enrolled};
use crate::proxy::subject::ClientSubject;
use crate::proxy::vouching;
use crate::rule_files::RuleFiles;
use crate::setup::{Setup, Usage, missing_links, not_listening};
use crate::takeover::{Predecessor, Successor};
use crate::web::Web;
use crate::{Asked, Asking, Daemon};
use enrolled::Enrolled;
use greeting::Greeting;
use machine::{Facts, Machine};
use rest::Rest;
use scopes::Scopes;

/// What `hawser up` is told for one start, beside the configuration.
#[derive(Debug)]
pub struct UpOptions {
    /// Connect directly, even if a gateway is enrolled.
    pub direct: bool,
    /// Invites of peers to enrol with.
    pub peers: Vec<GatewaySource>,
}

/// Runs the proxy until the daemon is asked to end. `setup` holds the configuration as the flags
/// have changed it.
///
/// # Errors
/// If the configuration contradicts itself, another daemon runs in the state directory, or a part
/// can't start.
pub async fn run(setup: &Setup, options: &UpOptions) -> anyhow::Result<()> {
    let mut whole = setup.config.clone();
    let daemon = Daemon::of(setup, &setup.state, Role::Client).await?;
    if let Some(predecessor) = daemon.predecessor() {
        whole.up.listen = predecessor.listen(whole.up.listen);
    }
    let config = whole.up.clone();
    let proxy = proxy_config(&config)?;
    let registration = Wanted::read(&config)?;
    let scopes = Scopes::of(&config.capture)?;
    let lans = scopes::find_lans(scopes.lans.clone(), &config).await?;
    // Turned on before anything is sent.
    let kill_switch = kill_switch(setup, options, &config).await?;
    let web = Web::start(config.web, &setup.state, &daemon)?;
    let (_monitor, links) = LinkMonitor::start_without(scopes.lans)
        .await
        .context("can't follow the links")?;
    if let Some(missing) = missing_links(&config.links, &links.borrow()) {
        tracing::warn!("{missing}; it is used as soon as it appears");
    }
    let own = OwnAddresses::follow()
        .await
        .context("can't follow this machine's addresses")?;
    let live_rules = LiveRules::follow(RuleFiles::of(setup))?;
    let rules = LinkRuleStore::open(&setup.config, &setup.state);
    for peer in &options.peers {
        peering::enrol(setup, peer, &config.links, &links, &rules)?;
    }
    let target = target(setup, options, (&config, lans.is_some()), &rules)?;
    let mut subject = ClientSubject::new(setup, &config.links, &links, &rules, &live_rules);
    subject.kill_switch = kill_switch.as_ref().map(KillSwitch::since);
    let mut joins = None;
    let gateway = match target {
        Some(mut target) => {
            joins = join_port(&config, &links, daemon.predecessor())?;
            target.config.join_port.clone_from(&joins);
            Some(Enrolled::connect(target, setup, &links, &rules).await?)
        }
        None => None,
    };
    let way = Serving {
        setup,
        config: &whole,
        links: &links,
        rules: &rules,
        connection_rules: live_rules.subscribe(),
        programs: scopes.programs.as_ref(),
        gateway: gateway.as_ref(),
        joins,
        registration: registration.as_ref(),
        machine: ThisMachine::new(own.clone()).with_private_names(whole.connection.private_names),
        own,
        reserved: setup.reserved_names()?,
        inbound: if config.accept_inbound {
            InboundFlows::Accepted
        } else {
            InboundFlows::Refused
        },
    };
    let served = way.serve(&daemon, proxy, subject, lans).await;
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

/// Returns the gateway; `None` if no gateway is enrolled or `--direct` is set.
fn target(
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
fn join_port(
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
async fn kill_switch(
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
        return wrong(" needs --capture system: what is not captured would not leave at all");
    }
    if options.direct || (config.gateway.is_none() && !is_enrolled(&setup.state)?) {
        return wrong(" needs a gateway, which carries what else must not leave");
    }
    let turned_on = KillSwitch::turn_on(openings(config)).await;
    let kill_switch = turned_on.context("--kill-switch")?;
    tracing::warn!("the kill switch is on: `hawser kill-switch off` removes it");
    Ok(Some(kill_switch))
}

/// Reads the settings of the port, so that mistakes are reported before anything is opened.
fn proxy_config(config: &UpConfig) -> anyhow::Result<ProxyConfig> {
    if !config.allow_lan && !config.listen.ip().is_loopback() {
        let listen = config.listen;
        let problem = format!(
            "other machines could use the proxy at {listen}: listen on 127.0.0.1 or [::1], or allow \
             them with --allow-lan"
        );
        return Err(Usage(problem).into());
    }
    if config.allow_lan && config.lacks_password() {
        let listen = config.listen;
        let problem = format!(
            "other machines can reach {listen}: name a --password-file that clients have to know \
             the content of, or allow all of them with --no-password"
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

/// Serves the proxy port and captured connections: each connection uses one link, a session with
/// the destination if that is a peer, or the gateway.
struct Serving<'a> {
    setup: &'a Setup,
    config: &'a Config,
    links: &'a Links,
    rules: &'a Arc<LinkRuleStore>,
    connection_rules: ConnectionRules,
    /// Programs whose connections are captured in the kernel.
    programs: Option<&'a CaptureScope>,
    gateway: Option<&'a Enrolled>,
    /// The port at which the gateway may connect.
    joins: Option<Arc<JoinPort>>,
    /// Registration of this host's name.
    registration: Option<&'a Wanted>,
    machine: ThisMachine,
    own: OwnAddresses,
    /// Names in the list of known hosts.
    reserved: ReservedNames,
    inbound: InboundFlows,
}

impl Serving<'_> {
    async fn serve(
        self,
        daemon: &Daemon,
        proxy: ProxyConfig,
        mut subject: ClientSubject,
        lans: Option<Lans>,
    ) -> anyhow::Result<Option<Successor>> {
        let mut agent = Agent::start(self.config, self.rules, self.links);
        let peering = self.peering(&subject.choice)?;
        let rules = self.connection_rules.clone();
        let direct = Direct::start(self.config, self.links.clone(), self.rules, rules).await;
        let director = direct.director();
        subject.standby = agent.keep_standby(self.config, &director, self.rules, self.links);
        let by_name = self.by_name(daemon, &director, &subject.choice)?;
        subject.registration = by_name.as_ref().map(ByName::shown);
        subject.named = by_name.as_ref().map(ByName::peers);
        let by_gateway = self.gateway.map(|it| {
            let usage = self.config.connection.gateway;
            ByGateway::start(Arc::clone(&it.client), director.clone(), usage)
        });
        subject.director = Some(director.clone());
        subject.peers = peering.as_ref().map(|it| it.sessions.clone());
        subject.held = peering.as_ref().map(|it| it.held.clone());
        let discovering = self.discovering(&director, &subject.choice, peering.as_ref())?;
        let discovered = discovering.as_ref().map(|it| it.servers.clone());
        subject.discovered.clone_from(&discovered);
        let vouched = vouching::start(
            (self.setup, self.config),
            (self.links, self.rules),
            (director.clone(), self.machine.clone()),
            self.connection_rules.clone(),
            &subject.choice,
        )?;
        subject.vouched.clone_from(&vouched);
        subject.announcing = discovering.as_ref().and_then(|it| it.announcing.clone());
        if let Some(gateway) = self.gateway {
            subject.client = Some(Arc::downgrade(&gateway.client));
            subject.peer.clone_from(&gateway.peer);
        }
        let datagrams = direct.datagrams().guarding(self.machine.clone());
        let datagrams = match &by_gateway {
            Some(it) => it.datagrams(datagrams, director.clone()),
            None => Arc::new(datagrams),
        };
        let port = Port {
            daemon,
            greeting: self.setup.is_at_terminal.then(|| self.greeting(&proxy)),
            proxy,
            subject,
            datagrams: self.reserved.guarding(datagrams),
            joins: self.joins.clone(),
            by_name: by_name.as_ref(),
        };
        let peers = peering.as_ref().map(Peering::peers);
        let dialer = direct.dialer(by_gateway.as_ref().map(ByGateway::dialer), peers);
        let dialer = self.complete(
            dialer,
            by_name.as_ref(),
            discovered.as_ref(),
            vouched.as_ref(),
        );
        let served = self.serve_by(dialer, director, port, lans).await;
        if let Some(by_name) = by_name {
            by_name.end().await;
        }
        if let Some(peering) = peering {
            peering.sessions.close(END_PATIENCE).await;
        }
        if let Some(servers) = discovered {
            servers.close(END_PATIENCE).await;
        }
        if let Some(servers) = vouched {
            servers.close(END_PATIENCE).await;
        }
        direct.finish().await;
        agent.end().await;
        served
    }

    fn greeting(&self, proxy: &ProxyConfig) -> Greeting {
        Greeting {
            links: self.links.clone(),
            wanted: self.config.up.links.clone(),
            gateway: self.gateway.map(|it| Arc::clone(&it.client)),
            programs: self.programs.cloned(),
            listen: proxy.listen,
            has_password: proxy.credentials.is_some(),
        }
    }

    /// Adds known hosts, discovered servers and vouched names to a dialer.
    fn complete(
        &self,
        dialer: ConnectionDialer,
        by_name: Option<&ByName>,
        discovered: Option<&DiscoveredServers>,
        vouched: Option<&VouchedServers>,
    ) -> ConnectionDialer {
        let dialer = dialer.guarding(self.machine.clone());
        let dialer = dialer.knowing(match by_name {
            Some(by_name) => by_name.peers(),
            None => Arc::new(self.reserved.clone()),
        });
        let dialer = match vouched {
            Some(servers) => dialer.holding(Arc::new(servers.clone())),
            None => dialer,
        };
        match discovered {
            Some(servers) => dialer.discovering(Arc::new(servers.clone())),
            None => dialer,
        }
    }

    /// Starts to look for peers among destinations, unless that is disabled.
    fn peering(&self, choice: &Choice) -> anyhow::Result<Option<Peering>> {
        if !self.config.connection.peers {
            return Ok(None);
        }
        let (wanted, rules) = (&self.config.up.links, self.connection_rules.clone());
        let links = (self.links, self.rules);
        Peering::start(self.setup, wanted, links, rules, choice).map(Some)
    }

    /// Starts to look for Hawser on servers that this machine has not enrolled with, if configured.
    fn discovering(
        &self,
        director: &SharedDirector,
        choice: &Choice,
        peering: Option<&Peering>,
    ) -> anyhow::Result<Option<Discovering>> {
        if !self.config.up.discover {
            return Ok(None);
        }
        let seeking = Seeking {
            setup: self.setup,
            config: &self.config.up,
            links: (self.links, self.rules),
            group: mount_point(),
            director: director.clone(),
            rules: self.connection_rules.clone(),
            choice,
            peers: peering.map(|it| it.finder.clone()),
        };
        seeking.start().map(Some)
    }

    /// Registers this host's name and finds other hosts by name, if configured.
    fn by_name(
        &self,
        daemon: &Daemon,
        director: &SharedDirector,
        choice: &Choice,
    ) -> anyhow::Result<Option<ByName>> {
        let Some(wanted) = self.registration else {
            return Ok(None);
        };
        let links = (self.links, self.rules);
        let setup = Setup {
            config: self.config.clone(),
            ..self.setup.clone()
        };
        let gateway = self.gateway.map(|it| Arc::clone(&it.client));
        let of = (&setup, daemon.predecessor());
        let by_name = ByName::start(of, wanted, links, director.clone(), choice, gateway)?;
        by_name
            .door()
            .into_iter()
            .for_each(|it| daemon.set_door(it));
        Ok(Some(by_name))
    }

    async fn serve_by(
        &self,
        dialer: ConnectionDialer,
        director: SharedDirector,
        mut port: Port<'_>,
        lans: Option<Lans>,
    ) -> anyhow::Result<Option<Successor>> {
        let dialer = Arc::new(dialer);
        let lans =
            lans.map(|lans| lans.take(&dialer, self.own.clone(), self.connection_rules.clone()));
        let lans = lans.transpose()?.map(Arc::new);
        let subject = &mut port.subject;
        subject.lan = lans.as_ref().map(|it| it.counters());
        let facts = Facts {
            programs: self.programs.cloned(),
            gateway: self.gateway.map(|it| Arc::clone(&it.client)),
            lans,
            connection: self.config.connection.clone(),
            links: self.links.clone(),
            rules: self.connection_rules.clone(),
            reserved: (self.reserved.clone(), self.machine.clone()),
            inbound: self.inbound,
            dialer: Arc::clone(&dialer),
            director: director.clone(),
            kill_switch: subject.kill_switch.clone(),
            names: subject.names.clone(),
            discovered: subject.discovered.clone(),
            announcing: subject.announcing.clone(),
            vouched: subject.vouched.clone(),
        };
        let is_succeeding = port.daemon.predecessor().is_some();
        let machine = Machine::start(facts, is_succeeding).await?;
        if let Err(error) = self.take_over(port.daemon, &machine).await {
            machine.end().await;
            return Err(error);
        }
        machine.carry();
        let who = Who::start(port.proxy.max_connections).inspect_err(|error| {
            tracing::warn!(%error, "can't find out which programs connect");
        });
        let rules = self.connection_rules.clone();
        // If everything uses the gateway, connections wait for their program only if rules need it.
        let matters = move || !director.is_all_by_gateway() || rules.borrow().chooses_ways();
        let rules = self.connection_rules.clone();
        let binds = move || rules.borrow().binds_askers();
        let who = who
            .ok()
            .map(|who| who.only_while(matters).needed_while(binds));
        port.serve(dialer, who, machine).await
    }

    /// Makes the predecessor yield, if there is one.
    async fn take_over(&self, daemon: &Daemon, machine: &Machine) -> anyhow::Result<()> {
        if daemon.predecessor().is_some() {
            // Wait for a session, so that connections find it. Without the gateway, the predecessor
            // would serve them no better, and packets of hosts need not be held.
            if let Some(gateway) = self.gateway
                && gateway.client.admitted(GATEWAY_PATIENCE).await.is_ok()
            {
                machine.hold().await;
            }
        }
        daemon.take_over().await
    }
}

/// The proxy port, and the state that it shows.
struct Port<'a> {
    daemon: &'a Daemon,
    /// Greeting for a user who has started the command at a terminal.
    greeting: Option<Greeting>,
    proxy: ProxyConfig,
    subject: ClientSubject,
    datagrams: Arc<dyn DatagramPorts>,
    /// The port at which the gateway may connect.
    joins: Option<Arc<JoinPort>>,
    /// Sessions with hosts that are known by name.
    by_name: Option<&'a ByName>,
}

impl Port<'_> {
    async fn serve(
        mut self,
        dialer: Arc<ConnectionDialer>,
        who: Option<Who>,
        mut machine: Machine,
    ) -> anyhow::Result<Option<Successor>> {
        let server = open(self.proxy, dialer).await;
        let server = match server {
            Ok(server) => server,
            Err(error) => {
                machine.end().await;
                return Err(error);
            }
        };
        let mut server = server.with_datagrams(self.datagrams);
        if let Some(who) = who {
            self.subject.who = Some(who.clone());
            server = server.asking(who);
        }
        let (listen, counters) = (server.local_addr(), server.counters());
        self.subject.proxy = Arc::clone(&counters);
        let daemon = self.daemon;
        daemon.show(self.subject);
        if let Err(error) = daemon.set_listen(listen).await {
            machine.end().await;
            return Err(error);
        }
        let greeting = async {
            match self.greeting {
                Some(greeting) => Greeting { listen, ..greeting }.say().await,
                None => tracing::info!(%listen, "the proxy is ready: SOCKS5, SOCKS4a and HTTP"),
            }
            std::future::pending::<()>().await;
        };
        let mut asking = daemon.asking();
        let (close, closed) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let leading = async {
            let successor = tokio::select! {
                successor = replaced(daemon, &mut asking, &mut machine) => successor,
                () = greeting => None,
            };
            drop(close);
            if let Some(successor) = &successor {
                let rest = Rest {
                    proxy: &counters,
                    machine: &machine,
                    joins: self.joins.as_deref(),
                    by_name: self.by_name,
                };
                rest.serve(successor, daemon).await;
            }
            drop(end);
            successor
        };
        let is_over = |over: oneshot::Receiver<()>| async { drop(over.await) };
        let serving = server.run_down(is_over(closed), is_over(ended));
        let (successor, ()) = tokio::join!(leading, serving);
        machine.end().await;
        Ok(successor)
    }
}

/// Waits until another process has taken over; returns `None` if the daemon is asked to end.
async fn replaced(
    daemon: &Daemon,
    asking: &mut Asking<'_>,
    machine: &mut Machine,
) -> Option<Successor> {
    loop {
        match asking.next().await {
            Asked::ToEnd => return None,
            Asked::ToYield(takeover) => {
                machine.release().await;
                if let Some(successor) = daemon.hand_on(*takeover).await {
                    return Some(successor);
                }
                machine.take_back().await;
            }
        }
    }
}

/// Opens the proxy port, or inherits it from the old process.
async fn open(
    config: ProxyConfig,
    dialer: Arc<ConnectionDialer>,
) -> anyhow::Result<ProxyServer<ConnectionDialer>> {
    let opened = match take_listener(config.listen) {
        Some(listener) => ProxyServer::new(TcpListener::from_std(listener)?, config, dialer),
        None => ProxyServer::bind(config, dialer).await,
    };
    opened.map_err(|error| match error {
        ProxyError::Listen { address, source } => not_listening(address, &source),
        error => error.into(),
    })
}

/// Longest wait for a session with the gateway before this process takes over.
const GATEWAY_PATIENCE: Duration = Duration::from_secs(8);
/// Longest time for the orderly end of a session.
pub const END_PATIENCE: Duration = Duration::from_secs(3);
