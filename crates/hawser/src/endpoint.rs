use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hawser_keys::host_port::HostPort;
use hawser_keys::identity::{Identity, PublicKey};
use hawser_keys::invite::Invite;
use hawser_keys::store::{ClientStore, GatewayStore, StateDir, StoreError};
use hawser_keys::unix_time::UnixTime;
use hawser_net::client::{Client, ClientConfig, OpenStreamError};
use hawser_net::gateway::{AcceptLimits, GatewayConfig};
use hawser_session::{SessionConfig, TransportChoice};
use tokio::net::ToSocketAddrs;

use crate::admission::Door;
use crate::connection::Connection;
use crate::error::{ConnectError, EndpointError, ListenError};
use crate::following::Following;
use crate::known::KnownKeys;
use crate::listener::BondListener;

/// A host with a key of its own, which listens, connects, or both. Clones are handles to the same
/// endpoint.
#[derive(Clone, Debug)]
pub struct Endpoint {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    identity: Identity,
    session: SessionConfig,
    transport: TransportChoice,
    limits: AcceptLimits,
    known_keys: KnownKeys,
    links: Vec<String>,
    name: String,
    connect_timeout: Duration,
    state: Option<StateDir>,
    following: Arc<Following>,
}

/// Settings of an [`Endpoint`].
#[derive(Clone, Debug)]
pub struct EndpointBuilder {
    identity: Option<Identity>,
    state: Option<PathBuf>,
    session: SessionConfig,
    encryption: Encryption,
    transport: TransportChoice,
    limits: AcceptLimits,
    links: Vec<String>,
    name: String,
    connect_timeout: Duration,
}

/// Encryption of data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encryption {
    /// Encrypted, by the cipher that suits the processors.
    #[default]
    Default,
    /// Readable and changeable in the network: for private links. It takes effect if both ends ask
    /// for it. Peers still have to prove their keys.
    None,
}

/// A peer to connect to: its key, which it has to prove, and its addresses. Made of an [`Invite`],
/// of a result of [`Endpoint::known_peers`], or of its parts.
#[derive(Clone, Debug)]
pub struct PeerAddress {
    key: PublicKey,
    addresses: Vec<HostPort>,
    invite: Option<Invite>,
}

impl PeerAddress {
    /// The peer with this key. It must know this host's key already.
    pub fn new(key: PublicKey, addresses: Vec<HostPort>) -> Self {
        let invite = None;
        Self {
            key,
            addresses,
            invite,
        }
    }

    /// Returns the key that the peer has to prove.
    pub fn key(&self) -> PublicKey {
        self.key
    }

    /// Returns the addresses where the peer listens, the best first.
    pub fn addresses(&self) -> &[HostPort] {
        &self.addresses
    }
}

impl From<&Invite> for PeerAddress {
    fn from(invite: &Invite) -> Self {
        Self {
            key: invite.gateway(),
            addresses: invite.addresses().to_vec(),
            invite: Some(invite.clone()),
        }
    }
}

impl From<&PeerAddress> for PeerAddress {
    fn from(peer: &PeerAddress) -> Self {
        peer.clone()
    }
}

impl EndpointBuilder {
    /// Uses this key instead of that of the state directory or a new one.
    #[must_use]
    pub fn identity(mut self, identity: Identity) -> Self {
        self.identity = Some(identity);
        self
    }

    /// Keeps persistent state in this directory, which is made if it is missing: the key, the peers
    /// enrolled here, and the peers that this host was enrolled with.
    #[must_use]
    pub fn state_dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.state = Some(path.into());
        self
    }

    /// Behaviour of sessions. The defaults suit almost every program.
    #[must_use]
    pub fn session(mut self, session: SessionConfig) -> Self {
        self.session = session;
        self
    }

    /// Encryption of data.
    #[must_use]
    pub fn encryption(mut self, encryption: Encryption) -> Self {
        self.encryption = encryption;
        self
    }

    /// Transport of the data in both directions, as the connecting end wants it; by default
    /// [`TransportChoice::Auto`]. A listening endpoint accepts UDP, at the port of the same number,
    /// unless this is [`TransportChoice::Tcp`]. Where UDP is blocked, all data uses TCP.
    #[must_use]
    pub fn transport(mut self, transport: TransportChoice) -> Self {
        self.transport = transport;
        self
    }

    /// Connects over these links only, given by interface name, such as `eth0`. The default is
    /// every link that works.
    #[must_use]
    pub fn links<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.links = names.into_iter().map(Into::into).collect();
        self
    }

    /// Resources that clients and strangers may use when this endpoint listens.
    #[must_use]
    pub fn limits(mut self, limits: AcceptLimits) -> Self {
        self.limits = limits;
        self
    }

    /// A name for this host. Peers that enrol it show the name to people.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// How long [`Endpoint::connect`] waits for the peer to admit this host. Default 30 s.
    #[must_use]
    pub fn connect_timeout(mut self, patience: Duration) -> Self {
        self.connect_timeout = patience;
        self
    }

    /// Makes the endpoint. Reads the state directory, if there is one, and opens no socket.
    pub fn build(self) -> Result<Endpoint, EndpointError> {
        let state = match self.state {
            Some(path) => {
                let state = StateDir::resolve(Some(path))?;
                state.prepare()?;
                Some(state)
            }
            None => None,
        };
        let identity = match (self.identity, &state) {
            (Some(identity), _) => identity,
            (None, Some(state)) => state.identity()?,
            (None, None) => Identity::generate()?,
        };
        let known_keys = match &state {
            Some(state) => KnownKeys::in_directory(state.path()),
            None => KnownKeys::in_memory(),
        };
        let plain = self.session.plain || self.encryption == Encryption::None;
        Ok(Endpoint {
            inner: Arc::new(Inner {
                identity,
                session: SessionConfig {
                    plain,
                    ..self.session
                },
                transport: self.transport,
                limits: self.limits,
                known_keys,
                links: self.links,
                name: self.name,
                connect_timeout: self.connect_timeout,
                state,
                following: Arc::default(),
            }),
        })
    }
}

impl Endpoint {
    /// Makes an endpoint with a new key, which is lost when the process ends.
    pub fn new() -> Result<Self, EndpointError> {
        Self::builder().build()
    }

    /// Returns a builder for other settings than those of [`Endpoint::new`].
    pub fn builder() -> EndpointBuilder {
        EndpointBuilder {
            identity: None,
            state: None,
            session: SessionConfig::default(),
            encryption: Encryption::Default,
            transport: TransportChoice::default(),
            limits: AcceptLimits::default(),
            links: Vec::new(),
            name: String::new(),
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
        }
    }

    /// Returns the public half of this host's key, by which its peers know it.
    pub fn public_key(&self) -> PublicKey {
        self.inner.identity.public()
    }

    /// Listens on `address` for peers that were invited or allowed: see [`BondListener`].
    pub async fn listen(&self, address: impl ToSocketAddrs) -> Result<BondListener, ListenError> {
        let store = self.inner.state.as_ref().map(GatewayStore::open);
        let door = Arc::new(Door::new(store.transpose()?));
        let inner = &self.inner;
        let config = GatewayConfig {
            identity: inner.identity.clone(),
            session: inner.session.clone(),
            limits: inner.limits,
            congestion: None,
            predecessor: None,
        };
        BondListener::start(config, inner.transport, &inner.following, address, door).await
    }

    /// Connects to a peer over every link, and waits until the peer has admitted this host, at most
    /// for [`EndpointBuilder::connect_timeout`].
    ///
    /// An invite is used once: afterwards the peer knows this host's key, and with a state
    /// directory this host knows the peer. The same endpoint may pass the same invite again.
    pub async fn connect(&self, peer: impl Into<PeerAddress>) -> Result<Connection, ConnectError> {
        let peer = peer.into();
        let store = self.client_store()?;
        let known = store.as_ref().and_then(|store| store.gateway(&peer.key));
        if known.is_some() || peer.invite.is_none() {
            match self.open_client(&peer, None).await {
                Ok(connection) => return Ok(connection),
                // A known peer has revoked this host since: the new invite is for this case.
                Err(ConnectError::Open(OpenStreamError::NotAdmitted)) if peer.invite.is_some() => {}
                Err(error) => return Err(error),
            }
        }
        let connection = self.open_client(&peer, peer.invite.clone()).await?;
        if let Some(store) = store {
            store.remember(peer.key, &peer.addresses, UnixTime::now())?;
        }
        Ok(connection)
    }

    /// Returns the peers that have enrolled this host, the latest first; none without a state
    /// directory.
    pub fn known_peers(&self) -> Result<Vec<PeerAddress>, EndpointError> {
        let gateways = self.client_store()?.map(|store| store.gateways());
        let known = gateways.unwrap_or_default().into_iter();
        Ok(known
            .map(|gateway| PeerAddress::new(gateway.key, gateway.addresses))
            .collect())
    }

    async fn open_client(
        &self,
        peer: &PeerAddress,
        invite: Option<Invite>,
    ) -> Result<Connection, ConnectError> {
        let inner = &self.inner;
        let enrolling = invite.is_some();
        let config = ClientConfig {
            invite,
            name: inner.name.clone(),
            links: inner.links.clone(),
            session: inner.session.clone(),
            transport: inner.transport,
            ..ClientConfig::new(inner.identity.clone(), peer.key, peer.addresses.clone())
        };
        let client = Client::start_once(config, inner.following.links().await?);
        if enrolling {
            client.enrolled(inner.connect_timeout).await?;
        } else {
            client.admitted(inner.connect_timeout).await?;
        }
        let session = client.session().ok_or(OpenStreamError::Closed)?;
        let following = Arc::clone(&inner.following);
        Ok(Connection::of_client(session, peer.key, client, following))
    }

    /// Returns the keys of peers that are known by their addresses.
    pub(crate) fn known_keys(&self) -> &KnownKeys {
        &self.inner.known_keys
    }

    fn client_store(&self) -> Result<Option<ClientStore>, StoreError> {
        self.inner.state.as_ref().map(ClientStore::open).transpose()
    }
}

const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
