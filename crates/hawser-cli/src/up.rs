//! `hawser up`: the proxy port, over a gateway or straight over the links.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use hawser_config::{Config, UpConfig};
use hawser_control::Role;
use hawser_front::bonded::BondDialer;
use hawser_front::connection::{LinkDialer, Who};
use hawser_front::datagram::{BondPorts, DatagramPorts};
use hawser_front::proxy::{ProxyConfig, ProxyServer};
use hawser_front::transport::Dialer;
use hawser_net::links::{Link, LinkMonitor};

use crate::args::UpArgs;
use crate::captured::{self, Scope};
use crate::daemon::Daemon;
use crate::direct::{ConnectionRules, Direct};
use crate::peering::{self, Peering};
use crate::rule_files::RuleFiles;
use crate::rules::LinkRules;
use crate::session::{ClientSubject, Links, Target};
use crate::setup::{Setup, Usage};

/// Runs the proxy until it is asked to end.
pub(crate) async fn run(setup: &Setup, args: &UpArgs) -> anyhow::Result<()> {
    let mut whole = setup.config.clone();
    args.apply_to(&mut whole.up, &mut whole.connection);
    let config = whole.up.clone();
    let daemon = Daemon::start(&setup.state, Role::Client)?;
    let (_monitor, links) = LinkMonitor::start()
        .await
        .context("can't follow the links")?;
    refuse_unknown(&args.links, &links.borrow())?;
    let proxy = proxy_config(&config);
    let connection_rules = RuleFiles::of(setup).follow()?;
    let rules = LinkRules::open(&setup.config, &setup.state);
    for peer in &args.peers {
        peering::enrol(setup, peer, &config.links, &links, &rules)?;
    }
    let gateway = config.gateway.as_ref();
    let target = match args.direct {
        true => None,
        false => Target::find(setup, &setup.state, gateway, &config.links, &rules)?,
    };
    let subject = ClientSubject::new(setup, &config.links, &links, &rules);
    let Some(target) = target else {
        if !args.direct {
            tracing::warn!("no gateway is enrolled: each connection goes straight, over one link");
        }
        let way = Straight {
            setup,
            config: &whole,
            links: &links,
            rules: &rules,
            connection_rules,
            capture: args.capture.as_ref(),
        };
        return way.serve(&daemon, proxy, subject).await;
    };
    if args.capture.is_some() {
        return Err(Usage(CAPTURE_WITHOUT_GATEWAY.to_owned()).into());
    }
    let (peer, enrolling) = (target.config.gateway.to_string(), !target.known);
    let client = Arc::new(target.connect(&setup.state, links.clone()).await?);
    let keeping = rules.keep(&client, &links);
    if enrolling {
        tracing::info!("enrolled: from now on `hawser up` needs no --gateway");
    }
    let subject = ClientSubject {
        client: Some(Arc::downgrade(&client)),
        peer,
        ..subject
    };
    let front = Front {
        dialer: BondDialer::new(Arc::clone(&client)),
        datagrams: Some(Arc::new(BondPorts::new(Arc::clone(&client)))),
        who: None,
    };
    serve(&daemon, proxy, front, subject).await?;
    keeping.finish(&client).await;
    client.close(END_PATIENCE).await;
    Ok(())
}

/// What is named on the command line is meant to be there now; what the configuration names may be
/// plugged in later.
pub(crate) fn refuse_unknown(wanted: &[String], links: &[Link]) -> Result<(), Usage> {
    let is_unknown = |name: &&String| links.iter().all(|link| link.name != **name);
    let Some(unknown) = wanted.iter().find(is_unknown) else {
        return Ok(());
    };
    let known: Vec<_> = links.iter().map(|link| link.name.as_str()).collect();
    let known = known.join(", ");
    Err(Usage(format!(
        "no link is called {unknown}; there are {known}"
    )))
}

fn proxy_config(config: &UpConfig) -> ProxyConfig {
    ProxyConfig {
        listen: config.listen,
        allow_lan: config.allow_lan,
        ..ProxyConfig::default()
    }
}

/// What the proxy port stands before.
struct Front<D> {
    dialer: D,
    datagrams: Option<Arc<dyn DatagramPorts>>,
    who: Option<Who>,
}

impl Front<LinkDialer> {
    fn direct(direct: &Direct) -> Self {
        let who = Who::start().inspect_err(|error| {
            tracing::warn!(%error, "which programs ask can't be found out");
        });
        Self {
            dialer: direct.dialer(),
            datagrams: Some(Arc::new(direct.datagrams())),
            who: who.ok(),
        }
    }
}

/// Connections without a gateway: to where they lead, over one link, or over a session where the
/// destination has a peer.
struct Straight<'a> {
    setup: &'a Setup,
    config: &'a Config,
    links: &'a Links,
    rules: &'a Arc<LinkRules>,
    connection_rules: ConnectionRules,
    capture: Option<&'a Scope>,
}

impl Straight<'_> {
    async fn serve(
        self,
        daemon: &Daemon,
        proxy: ProxyConfig,
        mut subject: ClientSubject,
    ) -> anyhow::Result<()> {
        let links = self.links;
        let connection_rules = self.connection_rules;
        let direct = Direct::start(
            self.config,
            links.clone(),
            self.rules,
            connection_rules.clone(),
        )
        .await;
        subject.director = Some(direct.director());
        let captured = self.capture.map(|scope| {
            let policy = self.config.connection.scheduler;
            let rules = connection_rules.clone();
            captured::start(scope, policy, direct.director(), rules, links.clone())
        });
        let captured = captured.transpose()?;
        let front = Front::direct(&direct);
        if self.config.connection.peers {
            let wanted = &self.config.up.links;
            let peering = Peering::start(self.setup, wanted, links, self.rules, connection_rules)?;
            subject.peers = Some(peering.sessions.clone());
            let front = Front {
                dialer: peering.dialer(front.dialer),
                datagrams: front.datagrams,
                who: front.who,
            };
            serve(daemon, proxy, front, subject).await?;
            peering.sessions.close(END_PATIENCE).await;
        } else {
            serve(daemon, proxy, front, subject).await?;
        }
        if let Some(captured) = captured {
            captured.abort();
        }
        direct.finish().await;
        Ok(())
    }
}

async fn serve<D: Dialer>(
    daemon: &Daemon,
    config: ProxyConfig,
    front: Front<D>,
    mut subject: ClientSubject,
) -> anyhow::Result<()> {
    let mut server = ProxyServer::bind(config, Arc::new(front.dialer)).await?;
    if let Some(ports) = front.datagrams {
        server = server.with_datagrams(ports);
    }
    if let Some(who) = front.who {
        server = server.asking(who);
    }
    let listen = server.local_addr();
    subject.proxy = server.counters();
    daemon.show(subject);
    daemon.set_listen(listen);
    tracing::info!(%listen, "the proxy is ready: SOCKS5, SOCKS4a and HTTP");
    server.run(daemon.asked_to_end()).await;
    Ok(())
}

/// How long a session may take to end in order.
pub(crate) const END_PATIENCE: Duration = Duration::from_secs(3);
const CAPTURE_WITHOUT_GATEWAY: &str =
    "--capture goes with --direct: what is captured goes straight, each connection over one link";
