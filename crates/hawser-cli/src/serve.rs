//! `hawser serve`: the gateway.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use hawser_config::ServeConfig;
use hawser_control::{LinkStatus, Role};
use hawser_front::bonded::{Bonded, Purpose};
use hawser_front::connect::{Connect, connect_tcp};
use hawser_front::gateway::{
    Cidr, ClientId, ClientLimits, DestinationPolicy, Gateway as Relay, GatewayConfig,
    GatewayCounters, IncomingStream as _,
};
use hawser_front::transport::DialError;
use hawser_net::gateway::{Gateway, Incoming};
use hawser_net::links::{Link, LinkMonitor, list_links};
use tokio::sync::watch;

use crate::args::ServeArgs;
use crate::daemon::{Daemon, Subject, View, Way, flat};
use crate::door::{Door, watch_peers};
use crate::measure;
use crate::setup::{Setup, link_list};

/// Runs the gateway until it is asked to end.
pub(crate) async fn run(setup: &Setup, args: &ServeArgs) -> anyhow::Result<()> {
    let mut config = setup.config.serve.clone();
    args.apply_to(&mut config);
    let daemon = Daemon::start(&setup.state, Role::Gateway)?;
    let door = Door::open(setup, &setup.state, &config).await?;
    let relay = Arc::new(relay(&config).await?);
    door.announce(
        args.door.invite_file.as_deref(),
        "hawser up --gateway INVITE",
    )?;
    // Whoever sees the address finds the invite.
    daemon.set_listen(door.listen);
    let (_monitor, links) = LinkMonitor::start().await?;
    let gateway = Arc::new(door.gateway);
    daemon.show(GatewaySubject {
        gateway: Arc::downgrade(&gateway),
        relay: Some(relay.counters()),
        links,
        setup: GatewayNames::of(setup),
    });
    tokio::spawn(watch_peers(Arc::downgrade(&gateway), door.store));
    accept(&daemon, &gateway, |incoming| {
        let relay = Arc::clone(&relay);
        tokio::spawn(serve_stream(relay, incoming));
    })
    .await;
    close(daemon, gateway).await;
    Ok(())
}

/// Hands every stream to `serve` until the daemon is asked to end.
pub(crate) async fn accept(daemon: &Daemon, gateway: &Gateway, serve: impl Fn(Incoming)) {
    let ended = daemon.asked_to_end();
    tokio::pin!(ended);
    loop {
        tokio::select! {
            () = &mut ended => return,
            incoming = gateway.accept() => match incoming {
                Some(incoming) => serve(incoming),
                None => return,
            },
        }
    }
}

/// Ends all sessions in order.
pub(crate) async fn close(daemon: Daemon, gateway: Arc<Gateway>) {
    tracing::info!("ending");
    if let Some(gateway) = Arc::into_inner(gateway) {
        gateway.close(END_PATIENCE).await;
    }
    drop(daemon);
}

/// What connects to destinations, and to which.
async fn relay(config: &ServeConfig) -> anyhow::Result<Relay<impl Connect>> {
    let links = list_links().await?;
    let own: Vec<IpAddr> = links.into_iter().flat_map(|link| link.addresses).collect();
    let allowed = config
        .allow_destination
        .iter()
        .map(|net| Cidr::new(net.addr(), net.prefix_len()));
    let policy = DestinationPolicy::new(
        allowed.collect::<Result<_, _>>()?,
        move |address: IpAddr| own.contains(&address),
    );
    let limits = ClientLimits {
        connects_per_second: config.limits.connects_per_second,
        ..ClientLimits::default()
    };
    let config = GatewayConfig {
        limits,
        ..GatewayConfig::default()
    };
    Ok(Relay::new(connect_tcp, policy, config))
}

/// Serves one stream to its end.
async fn serve_stream<C: Connect>(relay: Arc<Relay<C>>, incoming: Incoming) {
    let client = ClientId::new(*incoming.peer.as_bytes());
    let stream = Bonded::new(incoming.stream);
    match Purpose::of(stream.open_metadata()) {
        Some(Purpose::Connect) => {
            if let Err(error) = relay.handle(client, stream).await {
                tracing::debug!(?client, %error, "a stream is refused");
            }
        }
        Some(Purpose::Sink) => measure::swallow(stream).await,
        Some(Purpose::Source(size)) => measure::pour(stream, size).await,
        _ => stream.refuse(DialError::MalformedDestination),
    }
}

/// What `hawser status` shows of a gateway.
pub(crate) struct GatewaySubject {
    pub(crate) gateway: Weak<Gateway>,
    pub(crate) relay: Option<Arc<GatewayCounters>>,
    pub(crate) links: watch::Receiver<Arc<Vec<Link>>>,
    pub(crate) setup: GatewayNames,
}

/// The names of what all sessions of a gateway use.
pub(crate) struct GatewayNames {
    scheduler: &'static str,
    congestion: String,
}

impl GatewayNames {
    pub(crate) fn of(setup: &Setup) -> Self {
        let session = &setup.config.session;
        let congestion = session.congestion.name();
        let congestion = congestion.or_else(hawser_net::bind::best_congestion);
        Self {
            scheduler: session.scheduler.name(),
            congestion: congestion.unwrap_or_default(),
        }
    }
}

impl Subject for GatewaySubject {
    fn sessions(&self, max_streams: usize) -> Vec<View> {
        let Some(gateway) = self.gateway.upgrade() else {
            return Vec::new();
        };
        let sessions = gateway.sessions(max_streams).into_iter();
        let mut views: Vec<View> = sessions
            .map(|session| {
                let links = session.session.channels.iter().map(|it| it.link.value());
                // Which address a channel comes from is not known here, only the first one's.
                let way = |index| (index, Way::default());
                let mut ways: BTreeMap<u32, Way> = links.map(way).collect();
                if ways.len() == 1
                    && let Some(way) = ways.values_mut().next()
                {
                    way.remote = Some(session.remote);
                }
                View {
                    id: session.id.to_string(),
                    peer: session.peer.to_string(),
                    ways,
                    scheduler: self.setup.scheduler,
                    congestion: self.setup.congestion.clone(),
                    session: Some(session.session),
                }
            })
            .collect();
        views.sort_by(|a, b| (&a.peer, &a.id).cmp(&(&b.peer, &b.id)));
        views
    }

    fn links(&self) -> Vec<LinkStatus> {
        link_list(&self.links.borrow(), &[])
    }

    fn counters(&self) -> BTreeMap<String, u64> {
        let mut list = BTreeMap::new();
        if let Some(gateway) = self.gateway.upgrade() {
            flat(&mut list, "door", &gateway.counters());
        }
        if let Some(relay) = &self.relay {
            flat(&mut list, "gateway", &relay.snapshot());
        }
        list
    }
}

const END_PATIENCE: Duration = Duration::from_secs(3);
