//! A gateway, forwarders before it, and a client.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hawser_keys::host_port::HostPort;
use hawser_keys::identity::{Identity, PublicKey};
use hawser_keys::invite::Invite;
use hawser_keys::unix_time::UnixTime;
use hawser_link::links::Link;
use hawser_net::client::{Client, ClientConfig};
use hawser_net::gateway::{AcceptLimits, Admission, Gateway, GatewayConfig, GatewayCounters};
use hawser_net::stream::BondStream;
use hawser_session::SessionConfig;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::{Forwarder, read_checked, until, write_pattern};

/// Admits a set of keys; enrols clients with an invite of another set.
#[derive(Default)]
pub(crate) struct Door {
    pub(crate) peers: Mutex<BTreeSet<PublicKey>>,
    pub(crate) invites: Mutex<BTreeMap<PublicKey, Option<PublicKey>>>,
}

impl Admission for Door {
    fn admits(&self, key: &PublicKey) -> bool {
        self.is_enrolled(key) || self.invites.lock().contains_key(key)
    }

    fn is_enrolled(&self, key: &PublicKey) -> bool {
        self.peers.lock().contains(key)
    }

    fn enrol(&self, invite: PublicKey, client: PublicKey, _: &str) -> Result<(), String> {
        let mut invites = self.invites.lock();
        let user = invites.get_mut(&invite).ok_or("no such invite")?;
        if user.is_some_and(|user| user != client) {
            return Err("used by another".to_owned());
        }
        *user = Some(client);
        self.peers.lock().insert(client);
        Ok(())
    }
}

/// Properties of a [`Pair`].
pub(crate) struct PairOptions {
    pub(crate) links: u32,
    pub(crate) forwarders: usize,
    pub(crate) express: bool,
    pub(crate) session: SessionConfig,
    pub(crate) limits: AcceptLimits,
}

impl Default for PairOptions {
    fn default() -> Self {
        Self {
            links: 2,
            forwarders: 2,
            express: true,
            session: SessionConfig::default(),
            limits: AcceptLimits::default(),
        }
    }
}

impl PairOptions {
    /// One link to one address.
    pub(crate) fn narrow() -> Self {
        Self {
            links: 1,
            forwarders: 1,
            ..Self::default()
        }
    }

    /// One link to a gateway with these limits.
    pub(crate) fn limited(limits: AcceptLimits) -> Self {
        Self {
            limits,
            ..Self::narrow()
        }
    }
}

/// A gateway behind the addresses of forwarders, and a way to make clients of it.
pub(crate) struct Pair {
    pub(crate) gateway: Arc<Gateway>,
    serving: Mutex<Option<tokio::task::JoinHandle<()>>>,
    pub(crate) address: SocketAddr,
    pub(crate) forwarders: Vec<Forwarder>,
    pub(crate) door: Arc<Door>,
    pub(crate) key: PublicKey,
    identity: Identity,
    pub(crate) links: watch::Sender<Arc<Vec<Link>>>,
    options: PairOptions,
}

impl Pair {
    pub(crate) async fn new(options: PairOptions) -> Self {
        Self::with(options, Identity::generate().unwrap(), Arc::default()).await
    }

    /// Makes an invite that the gateway knows.
    pub(crate) fn invite(&self) -> Invite {
        let expires = UnixTime::now() + Duration::from_secs(3600);
        let invite = Invite::generate(self.key, self.addresses(), expires).unwrap();
        let key = invite.enrolment_identity().public();
        self.door.invites.lock().insert(key, None);
        invite
    }

    /// Makes a gateway at addresses of its own with the key and the clients of another one.
    pub(crate) async fn succeeding(other: &Self) -> Self {
        let options = PairOptions {
            session: other.options.session.clone(),
            ..other.options
        };
        Self::with(options, other.identity.clone(), Arc::clone(&other.door)).await
    }

    async fn with(options: PairOptions, identity: Identity, door: Arc<Door>) -> Self {
        // With HAWSER_LOG=debug a failing test logs its course.
        let level = std::env::var("HAWSER_LOG").unwrap_or_default().parse();
        let level = level.unwrap_or(tracing_subscriber::filter::LevelFilter::ERROR);
        let log = tracing_subscriber::fmt().with_max_level(level);
        let _ = log.with_test_writer().try_init();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let key = identity.public();
        let config = GatewayConfig {
            identity: identity.clone(),
            session: options.session.clone(),
            limits: options.limits,
            congestion: None,
            predecessor: None,
        };
        let gateway = Gateway::start(config, vec![listener], Arc::clone(&door) as _).unwrap();
        let mut forwarders = Vec::new();
        for _ in 0..options.forwarders {
            forwarders.push(Forwarder::start(address).await);
        }
        let links = (1..=options.links).map(link).collect();
        Self {
            gateway: Arc::new(gateway),
            serving: Mutex::default(),
            address,
            forwarders,
            door,
            key,
            identity,
            links: watch::Sender::new(Arc::new(links)),
            options,
        }
    }

    /// Returns a gateway that echoes, and an enrolled client with all its channels.
    pub(crate) async fn echoing(options: PairOptions) -> (Self, Client) {
        let pair = Self::new(options).await;
        pair.serve_echo();
        let client = pair.enrolled_client();
        pair.wait_for_channels(&client).await;
        (pair, client)
    }

    pub(crate) fn addresses(&self) -> Vec<HostPort> {
        let all = self.forwarders.iter();
        all.map(|forwarder| HostPort::try_from(forwarder.address).unwrap())
            .collect()
    }

    pub(crate) fn config(&self, identity: Identity, invite: Option<Invite>) -> ClientConfig {
        ClientConfig {
            invite,
            name: "test".to_owned(),
            session: self.options.session.clone(),
            express: self.options.express,
            ..ClientConfig::new(identity, self.key, self.addresses())
        }
    }

    pub(crate) fn start(&self, config: ClientConfig) -> Client {
        Client::start(config, self.links.subscribe())
    }

    pub(crate) fn enrolled_client(&self) -> Client {
        let identity = Identity::generate().unwrap();
        let key = identity.public();
        self.door.peers.lock().insert(key);
        self.start(self.config(identity, None))
    }

    /// Waits until every link has its bulk and its express channel, on both sides.
    pub(crate) async fn wait_for_channels(&self, client: &Client) {
        let kinds = if self.options.express { 2 } else { 1 };
        let wanted = self.options.links as usize * kinds;
        until("all channels", || channels(client) == wanted).await;
        let count = || {
            let sessions = self.gateway.sessions(0);
            sessions.iter().map(|s| s.session.channels.len()).max()
        };
        until("all channels at the gateway", || {
            count().is_some_and(|count| count >= wanted)
        })
        .await;
    }

    pub(crate) fn counters(&self) -> GatewayCounters {
        self.gateway.counters()
    }

    /// Waits until the gateway's counters satisfy `condition`.
    pub(crate) async fn until(&self, what: &str, condition: impl Fn(&GatewayCounters) -> bool) {
        until(what, || condition(&self.counters())).await;
    }

    /// Makes the gateway accept every stream, and echo its bytes.
    pub(crate) fn serve_echo(&self) {
        let gateway = Arc::clone(&self.gateway);
        let task = tokio::spawn(async move {
            while let Some(incoming) = gateway.accept().await {
                tokio::spawn(echo(incoming.stream));
            }
        });
        *self.serving.lock() = Some(task);
    }

    /// Closes the gateway gracefully.
    pub(crate) async fn close_gateway(self, patience: Duration) {
        let serving = self.serving.lock().take();
        if let Some(task) = serving {
            task.abort();
            let _ = task.await;
        }
        let gateway = Arc::into_inner(self.gateway);
        gateway.expect("the only reference").close(patience).await;
    }
}

async fn echo(mut stream: BondStream) -> std::io::Result<()> {
    stream.accept(Bytes::new())?;
    let (mut reader, mut writer) = tokio::io::split(stream);
    tokio::io::copy(&mut reader, &mut writer).await?;
    tokio::io::AsyncWriteExt::shutdown(&mut writer).await
}

/// Returns the number of channels of the client's session.
pub(crate) fn channels(client: &Client) -> usize {
    let session = client.snapshot(0).session;
    session.map_or(0, |session| session.channels.len())
}

/// Sends data through an echo, and checks the answer.
pub(crate) async fn echo_checked(client: &Client, seed: u64, length: u64) {
    let stream = client.open(Bytes::new()).await.unwrap();
    let (mut reader, mut writer) = tokio::io::split(stream);
    let (sent, received) = tokio::join!(
        write_pattern(&mut writer, seed, length),
        read_checked(&mut reader)
    );
    assert_eq!(sent.unwrap(), received.unwrap(), "stream {seed}");
}

/// Makes a link of the tests: one of several that are all loopback.
pub(crate) fn link(number: u32) -> Link {
    Link {
        index: hawser_types::LinkIndex::new(1000 + number),
        name: format!("test{number}"),
        has_default_route_v4: true,
        ..Link::loopback([127, 0, 0, 1].into())
    }
}
