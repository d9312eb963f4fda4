//! `hawser up`: the proxy port, over a gateway or straight over the links.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use hawser_config::{GatewaySource, UpConfig};
use hawser_front::bonded::BondDialer;
use hawser_front::direct::DirectDialer;
use hawser_front::proxy::{ProxyConfig, ProxyServer};
use hawser_front::transport::Dialer;
use hawser_net::bind::{SocketOptions, connect_on_link};
use hawser_net::client::{Client, ClientConfig};
use hawser_net::invite::read_reference;
use hawser_net::links::{Link, LinkMonitor, usable};
use hawser_net::store::ClientStore;
use hawser_net::unix_time::UnixTime;
use tokio::sync::watch;

use crate::args::UpArgs;
use crate::setup::{Setup, asked_to_end};

type Links = watch::Receiver<Arc<Vec<Link>>>;

/// Runs the proxy until it is asked to end.
pub(crate) async fn run(setup: &Setup, args: &UpArgs) -> anyhow::Result<()> {
    let mut config = setup.config.up.clone();
    args.apply_to(&mut config);
    let (_monitor, links) = LinkMonitor::start()
        .await
        .context("can't follow the links")?;
    let proxy = ProxyConfig {
        listen: config.listen,
        allow_lan: config.allow_lan,
        ..ProxyConfig::default()
    };
    match gateway_config(setup, &config)? {
        Some(client) => {
            let enrolling = client.invite.is_some();
            let (gateway, addresses) = (client.gateway, client.addresses.clone());
            let client = Arc::new(Client::start(client, links));
            if enrolling {
                client
                    .enrolled(ENROL_PATIENCE)
                    .await
                    .context("enrolment failed")?;
                ClientStore::open(&setup.state)?.remember(gateway, &addresses, UnixTime::now())?;
                tracing::info!("enrolled: from now on `hawser up` needs no --gateway");
            }
            let dialer = Arc::new(BondDialer::new(Arc::clone(&client)));
            serve(proxy, dialer).await?;
            if let Some(client) = Arc::into_inner(client) {
                client.close(END_PATIENCE).await;
            }
            Ok(())
        }
        None => {
            tracing::warn!(
                "no gateway is enrolled: each connection goes straight over one link, in rotation"
            );
            serve(
                proxy,
                Arc::new(DirectDialer::new(Rotation::new(links, config.links))),
            )
            .await
        }
    }
}

async fn serve<D: Dialer>(config: ProxyConfig, dialer: Arc<D>) -> anyhow::Result<()> {
    let server = ProxyServer::bind(config, dialer).await?;
    let listen = server.local_addr();
    tracing::info!(%listen, "the proxy is ready: SOCKS5, SOCKS4a and HTTP");
    server.run(asked_to_end()).await;
    Ok(())
}

/// The client of the gateway that was named, or else of the one enrolled with last.
pub(crate) fn gateway_config(
    setup: &Setup,
    config: &UpConfig,
) -> anyhow::Result<Option<ClientConfig>> {
    setup.state.prepare()?;
    let store = ClientStore::open(&setup.state)?;
    let (gateway, addresses, invite) = match &config.gateway {
        Some(source) => {
            let invite = read_reference(&reference(source))?;
            let (key, addresses) = (invite.gateway(), invite.addresses().to_vec());
            // An invite is for once; whoever is enrolled needs it no more.
            let known = store.gateway(&key).is_some();
            (key, addresses, (!known).then_some(invite))
        }
        None => match store.default_gateway() {
            Some(gateway) => (gateway.key, gateway.addresses, None),
            None => return Ok(None),
        },
    };
    let weights = setup.config.links.iter();
    let weights = weights
        .map(|link| (link.name.clone(), f64::from(link.weight)))
        .collect();
    Ok(Some(ClientConfig {
        identity: setup.state.identity()?,
        gateway,
        addresses,
        invite,
        name: machine_name(),
        links: config.links.clone(),
        weights,
        session: setup.config.session.for_session(MAX_STREAMS),
        congestion: setup.config.session.congestion.name(),
        express: setup.config.session.express,
    }))
}

fn reference(source: &GatewaySource) -> String {
    match source {
        GatewaySource::Url(url) => url.clone(),
        GatewaySource::File(path) => format!("@{}", path.display()),
    }
}

fn machine_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

/// Connects over the links in turn.
struct Rotation {
    links: Links,
    wanted: Vec<String>,
    turn: AtomicUsize,
}

impl Rotation {
    fn new(links: Links, wanted: Vec<String>) -> Self {
        Self {
            links,
            wanted,
            turn: AtomicUsize::new(0),
        }
    }
}

impl hawser_front::connect::Connect for Rotation {
    type Stream = tokio::net::TcpStream;

    async fn connect(&self, address: SocketAddr) -> std::io::Result<Self::Stream> {
        let links = usable(&self.links.borrow(), &self.wanted);
        let local = address.ip().to_canonical().is_loopback();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let link = links
            .get(turn.checked_rem(links.len()).unwrap_or(0))
            .filter(|_| !local);
        Ok(connect_on_link(link, address, &SocketOptions::default()).await?)
    }
}

/// How many streams a gateway may open here at once.
const MAX_STREAMS: u32 = 1024;
const ENROL_PATIENCE: Duration = Duration::from_secs(30);
const END_PATIENCE: Duration = Duration::from_secs(3);
