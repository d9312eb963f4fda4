//! `hawser up`: the proxy port, over a gateway or straight over the links.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use hawser_control::Role;
use hawser_front::bonded::BondDialer;
use hawser_front::direct::DirectDialer;
use hawser_front::proxy::{ProxyConfig, ProxyServer};
use hawser_front::transport::Dialer;
use hawser_net::bind::{SocketOptions, connect_on_link};
use hawser_net::links::{LinkMonitor, usable};

use crate::args::UpArgs;
use crate::daemon::Daemon;
use crate::rule_files::RuleFiles;
use crate::rules::{LinkRules, permitted};
use crate::session::{ClientSubject, Links, Target};
use crate::setup::Setup;

/// Runs the proxy until it is asked to end.
pub(crate) async fn run(setup: &Setup, args: &UpArgs) -> anyhow::Result<()> {
    let mut config = setup.config.up.clone();
    args.apply_to(&mut config);
    let daemon = Daemon::start(&setup.state, Role::Client)?;
    let (_monitor, links) = LinkMonitor::start()
        .await
        .context("can't follow the links")?;
    let proxy = ProxyConfig {
        listen: config.listen,
        allow_lan: config.allow_lan,
        ..ProxyConfig::default()
    };
    // Whoever places connections asks them; until then they are only read and watched.
    let _rules_for_connections = RuleFiles::of(setup).follow()?;
    let rules = LinkRules::open(&setup.config, &setup.state);
    let gateway = config.gateway.as_ref();
    let target = Target::find(setup, &setup.state, gateway, &config.links, &rules)?;
    let subject = ClientSubject {
        client: None,
        proxy: Arc::default(),
        links: links.clone(),
        wanted: config.links.clone(),
        rules: Arc::clone(&rules),
        scheduler: setup.config.session.scheduler.name(),
        peer: String::new(),
    };
    let Some(target) = target else {
        tracing::warn!(
            "no gateway is enrolled: each connection goes straight over one link, in rotation"
        );
        let dialer = DirectDialer::new(Rotation::new(links, config.links, rules));
        return serve(&daemon, proxy, Arc::new(dialer), subject).await;
    };
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
    let dialer = Arc::new(BondDialer::new(Arc::clone(&client)));
    serve(&daemon, proxy, dialer, subject).await?;
    keeping.finish(&client).await;
    client.close(END_PATIENCE).await;
    Ok(())
}

async fn serve<D: Dialer>(
    daemon: &Daemon,
    config: ProxyConfig,
    dialer: Arc<D>,
    mut subject: ClientSubject,
) -> anyhow::Result<()> {
    let server = ProxyServer::bind(config, dialer).await?;
    let listen = server.local_addr();
    subject.proxy = server.counters();
    daemon.show(subject);
    daemon.set_listen(listen);
    tracing::info!(%listen, "the proxy is ready: SOCKS5, SOCKS4a and HTTP");
    server.run(daemon.asked_to_end()).await;
    Ok(())
}

/// Connects over the links in turn.
struct Rotation {
    links: Links,
    wanted: Vec<String>,
    rules: Arc<LinkRules>,
    turn: AtomicUsize,
}

impl Rotation {
    fn new(links: Links, wanted: Vec<String>, rules: Arc<LinkRules>) -> Self {
        Self {
            links,
            wanted,
            rules,
            turn: AtomicUsize::new(0),
        }
    }
}

impl hawser_front::connect::Connect for Rotation {
    type Stream = tokio::net::TcpStream;

    async fn connect(&self, address: SocketAddr) -> std::io::Result<Self::Stream> {
        let links = usable(&self.links.borrow(), &self.wanted);
        let any = !links.is_empty();
        let links = permitted(links, &self.rules.terms());
        let local = address.ip().to_canonical().is_loopback();
        if any && links.is_empty() && !local {
            let problem = "no link is up that may be used";
            return Err(std::io::Error::new(
                std::io::ErrorKind::NetworkUnreachable,
                problem,
            ));
        }
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let link = links
            .get(turn.checked_rem(links.len()).unwrap_or(0))
            .filter(|_| !local);
        Ok(connect_on_link(link, address, &SocketOptions::default()).await?)
    }
}

const END_PATIENCE: Duration = Duration::from_secs(3);
