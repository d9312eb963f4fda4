//! `hawser serve`: the gateway.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use hawser_config::ServeConfig;
use hawser_front::bonded::{Bonded, Purpose};
use hawser_front::connect::connect_tcp;
use hawser_front::gateway::{
    Cidr, ClientId, ClientLimits, DestinationPolicy, Gateway as Door, GatewayConfig as DoorConfig,
    IncomingStream as _,
};
use hawser_front::transport::DialError;
use hawser_net::gateway::{AcceptLimits, Admission, Gateway, GatewayConfig, Incoming};
use hawser_net::host_port::{Host, HostPort};
use hawser_net::identity::PublicKey;
use hawser_net::invite::Invite;
use hawser_net::links::list_links;
use hawser_net::store::{GatewayStore, StateDir};
use hawser_net::unix_time::UnixTime;
use hawser_types::ByteCount;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::args::{DoorArgs, ServeArgs};
use crate::setup::{Setup, asked_to_end};

/// Runs the gateway until it is asked to end.
pub(crate) async fn run(setup: &Setup, args: &ServeArgs) -> anyhow::Result<()> {
    let mut config = setup.config.serve.clone();
    args.apply_to(&mut config);
    let gateway = Arc::new(open(setup, &config, &args.door).await?);
    let own = list_links()
        .await?
        .into_iter()
        .flat_map(|link| link.addresses)
        .collect::<Vec<_>>();
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
    let door = Arc::new(Door::new(
        connect_tcp,
        policy,
        DoorConfig {
            limits,
            ..DoorConfig::default()
        },
    ));
    let ended = asked_to_end();
    tokio::pin!(ended);
    loop {
        tokio::select! {
            () = &mut ended => break,
            incoming = gateway.accept() => {
                let Some(incoming) = incoming else { break };
                tokio::spawn(serve_stream(Arc::clone(&door), incoming));
            }
        }
    }
    tracing::info!("ending");
    if let Some(gateway) = Arc::into_inner(gateway) {
        gateway.close(END_PATIENCE).await;
    }
    Ok(())
}

/// Opens the gateway's port with the keys and peers of the state directory, and prints an invite.
pub(crate) async fn open(
    setup: &Setup,
    config: &ServeConfig,
    args: &DoorArgs,
) -> anyhow::Result<Gateway> {
    setup.state.prepare()?;
    let identity = setup.state.identity()?;
    let store = Arc::new(GatewayStore::open(&setup.state)?);
    let listener = hawser_net::bind::listen(config.listen)
        .with_context(|| format!("can't listen on {}", config.listen))?;
    let listen = listener.local_addr()?;
    let addresses = advertised(config, listen).await?;
    remember_addresses(&setup.state, &addresses)?;
    let invite = new_invite(&store, identity.public(), addresses, DEFAULT_TTL)?;
    let limits = AcceptLimits {
        sessions: config.limits.sessions as usize,
        sessions_per_client: config.limits.sessions_per_client as usize,
        half_open: config.limits.half_open_handshakes as usize,
        ..AcceptLimits::default()
    };
    let mut session = setup
        .config
        .session
        .for_session(config.limits.streams_per_session);
    // No single session may take more than a quarter of what all may.
    let share = ByteCount::new(config.limits.memory.as_u64() / 4);
    session.receive_memory = session.receive_memory.min(share);
    let gateway = GatewayConfig {
        identity,
        session,
        limits,
        congestion: setup.config.session.congestion.name(),
    };
    let admission = Arc::new(Enrolled { store });
    let gateway = Gateway::start(gateway, vec![listener], admission)?;
    announce(&invite, listen, args.invite_file.as_deref())?;
    Ok(gateway)
}

/// Makes an invite and keeps its public half.
pub(crate) fn new_invite(
    store: &GatewayStore,
    gateway: PublicKey,
    addresses: Vec<HostPort>,
    ttl: Duration,
) -> anyhow::Result<Invite> {
    let now = UnixTime::now();
    let invite = Invite::generate(gateway, addresses, now + ttl)?;
    store.add_invite(invite.enrolment_identity().public(), invite.expires(), now)?;
    Ok(invite)
}

fn announce(invite: &Invite, listen: SocketAddr, file: Option<&Path>) -> anyhow::Result<()> {
    tracing::info!(%listen, "accepting clients");
    if let Some(path) = file {
        invite.write_file(path)?;
    }
    println!("{}", invite.to_line().as_str());
    tracing::info!("the invite above enrols one client: hawser up --gateway INVITE");
    Ok(())
}

/// Where clients reach this gateway: what `--advertise` says, else the address it listens on, else
/// every address of this machine that is not loopback, else loopback.
async fn advertised(config: &ServeConfig, listen: SocketAddr) -> anyhow::Result<Vec<HostPort>> {
    let port = listen.port();
    if !config.advertise.is_empty() {
        let read = |address: &hawser_config::HostPort| {
            HostPort::parse(&address.to_string(), Some(port)).context("--advertise")
        };
        return config.advertise.iter().map(read).collect();
    }
    let mut ips = vec![listen.ip()];
    if listen.ip().is_unspecified() {
        let links = list_links().await?;
        let mut found = links.iter().filter(|link| !link.loopback && link.up);
        ips = found
            .by_ref()
            .flat_map(|link| link.addresses.clone())
            .collect();
        ips.retain(|ip| ip.is_ipv4() || listen.is_ipv6());
        if ips.is_empty() {
            ips.push(IpAddr::from([127, 0, 0, 1]));
        }
    }
    ips.truncate(hawser_net::invite::MAX_ADDRESSES);
    ips.into_iter()
        .map(|ip| Ok(HostPort::new(Host::from(ip), port)?))
        .collect()
}

/// Later invites carry the same addresses.
fn remember_addresses(state: &StateDir, addresses: &[HostPort]) -> anyhow::Result<()> {
    let text = serde_json::to_vec_pretty(addresses)?;
    let path = state.file(ADDRESSES);
    std::fs::write(&path, text).with_context(|| format!("can't write {}", path.display()))
}

/// Serves one stream to its end.
async fn serve_stream<C>(door: Arc<Door<C>>, incoming: Incoming)
where
    C: hawser_front::connect::Connect,
{
    let client = ClientId::new(*incoming.peer.as_bytes());
    let stream = Bonded::new(incoming.stream);
    match Purpose::of(stream.open_metadata()) {
        Some(Purpose::Connect) => {
            if let Err(error) = door.handle(client, stream).await {
                tracing::debug!(?client, %error, "a stream is refused");
            }
        }
        Some(Purpose::Sink) => swallow(stream).await,
        _ => stream.refuse(DialError::MalformedDestination),
    }
}

/// Reads to the end and answers with the number of bytes.
async fn swallow(mut stream: Bonded) {
    use hawser_front::gateway::IncomingStream as _;
    stream.accept();
    let mut buffer = vec![0; SINK_BUFFER];
    let mut count: u64 = 0;
    loop {
        match stream.read(&mut buffer).await {
            Ok(0) => break,
            Ok(n) => count += n as u64,
            Err(_) => return,
        }
    }
    if stream.write_all(&count.to_be_bytes()).await.is_ok() {
        let _ = stream.shutdown().await;
        let _ = stream.get_mut().acknowledged().await;
    }
}

/// Admits the clients of the state directory.
struct Enrolled {
    store: Arc<GatewayStore>,
}

impl Enrolled {
    fn refresh(&self) {
        if let Err(error) = self.store.reload_if_changed() {
            tracing::warn!(%error, "the list of peers can't be read again");
        }
    }
}

impl Admission for Enrolled {
    fn admits(&self, key: &PublicKey) -> bool {
        self.refresh();
        self.store.is_peer(key) || self.store.accepts_enrolment(key, UnixTime::now())
    }

    fn is_enrolled(&self, key: &PublicKey) -> bool {
        self.store.is_peer(key)
    }

    fn enrol(&self, invite: PublicKey, client: PublicKey, name: &str) -> Result<(), String> {
        let admitted = self.store.admit_enrolment(invite, client, UnixTime::now());
        admitted.map_err(|error| error.to_string())?;
        if !name.is_empty()
            && let Err(error) = self.store.rename(client, Some(name))
        {
            tracing::debug!(%error, "the client's name is not kept");
        }
        Ok(())
    }
}

/// The file that remembers what invites advertise.
pub(crate) const ADDRESSES: &str = "addresses.json";
/// How long an invite is good for when nobody says.
pub(crate) const DEFAULT_TTL: Duration = Duration::from_secs(24 * 3600);
const END_PATIENCE: Duration = Duration::from_secs(3);
const SINK_BUFFER: usize = 256 * 1024;
