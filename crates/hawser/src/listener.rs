use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hawser_keys::host_port::HostPort;
use hawser_keys::identity::PublicKey;
use hawser_keys::invite::{Invite, MAX_ADDRESSES};
use hawser_keys::store::StoreError;
use hawser_keys::unix_time::UnixTime;
use hawser_link::bind;
use hawser_link::links::list_links;
use hawser_net::gateway::{Gateway, GatewayConfig, GatewayCounters, OpenToClientError};
use hawser_net::stream::BondStream;
use hawser_session::TransportChoice;
use tokio::net::ToSocketAddrs;

use crate::admission::Door;
use crate::connection::Connection;
use crate::error::{AcceptError, ListenError};
use crate::following::Following;

/// Accepts peers, or the streams that they open. Peers need an [invite](BondListener::invite), or
/// must be [allowed](BondListener::allow).
///
/// The TLS handshake of all other hosts fails. On the unspecified address (`[::]`, `0.0.0.0`) of a
/// machine with several links, a peer is answered by the link that it arrived on. Dropping the
/// listener ends its connections at once, [`BondListener::close`] in order.
pub struct BondListener {
    gateway: Gateway,
    door: Arc<Door>,
    key: PublicKey,
    address: SocketAddr,
    advertised: Vec<HostPort>,
}

/// The peer that has opened a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeerInfo {
    /// The key that the peer has proved.
    pub key: PublicKey,
}

impl BondListener {
    pub(crate) async fn start(
        config: GatewayConfig,
        transport: TransportChoice,
        following: &Following,
        address: impl ToSocketAddrs,
        door: Arc<Door>,
    ) -> Result<Self, ListenError> {
        let listener = listen(address).await?;
        let address = listener.local_addr()?;
        let advertised = own_addresses(address).await?;
        let key = config.identity.public();
        let mut gateway = Gateway::start(config, vec![listener], Arc::clone(&door) as _)?;
        if transport != TransportChoice::Tcp {
            gateway = gateway.with_associations();
        }
        if address.ip().is_unspecified() {
            gateway = gateway.with_links(following.links().await?);
        }
        Ok(Self {
            gateway,
            door,
            key,
            address,
            advertised,
        })
    }

    /// Waits for the next stream that any peer opens, as a TCP listener waits for connections.
    /// Cancel safe: a future that is dropped has taken no stream.
    ///
    /// # Errors
    /// [`AcceptError::GivesConnections`], as the inner error, if
    /// [`BondListener::accept_connection`] was called first.
    pub async fn accept(&self) -> io::Result<(BondStream, PeerInfo)> {
        loop {
            let incoming = self.gateway.accept().await;
            let mut incoming = incoming.ok_or_else(|| {
                io::Error::new(io::ErrorKind::InvalidInput, AcceptError::GivesConnections)
            })?;
            // The peer may have reset the stream meanwhile.
            if incoming.stream.accept(Bytes::new()).is_ok() {
                let key = incoming.peer;
                return Ok((incoming.stream, PeerInfo { key }));
            }
        }
    }

    /// Waits for the next peer that connects. Its streams are accepted, and streams to it opened,
    /// on the connection. A listener returns either connections or streams: the first call of this
    /// or of [`BondListener::accept`] decides, and peers that came before are not lost. Cancel
    /// safe: a future that is dropped has taken no connection.
    ///
    /// # Errors
    /// [`AcceptError::GivesStreams`] if [`BondListener::accept`] was called first.
    pub async fn accept_connection(&self) -> Result<Connection, AcceptError> {
        let arrived = self.gateway.accept_session().await;
        let arrived = arrived.ok_or(AcceptError::GivesStreams)?;
        Ok(Connection::of_listener(arrived.session, arrived.peer))
    }

    /// Opens a stream to the peer with this key, which has to be connected. The peer gets the
    /// stream from [`Connection::accept`](crate::Connection::accept).
    pub fn open(&self, peer: &PublicKey) -> Result<BondStream, OpenToClientError> {
        self.open_with(peer, Bytes::new())
    }

    /// As [`BondListener::open`]; also tells the peer the stream's purpose, [`BondStream::opening`]
    /// at the peer. At most 1024 bytes.
    pub fn open_with(
        &self,
        peer: &PublicKey,
        opening: Bytes,
    ) -> Result<BondStream, OpenToClientError> {
        self.gateway.open(peer, opening)
    }

    /// Makes an invite: one peer may connect here with it, once, within `ttl`. Afterwards the peer
    /// is known by its key.
    ///
    /// The invite contains the listening address. If that is unspecified, it contains all addresses
    /// of this machine except loopback.
    pub fn invite(&self, ttl: Duration) -> Result<Invite, ListenError> {
        self.invite_to(self.advertised.clone(), ttl)
    }

    /// As [`BondListener::invite`], with the addresses under which other hosts reach this one; 1 to
    /// 16.
    pub fn invite_to(
        &self,
        addresses: Vec<HostPort>,
        ttl: Duration,
    ) -> Result<Invite, ListenError> {
        let invite = Invite::generate(self.key, addresses, UnixTime::now() + ttl)?;
        let enrolment = invite.enrolment_identity().public();
        self.door.add_invite(enrolment, invite.expires())?;
        Ok(invite)
    }

    /// Admits the peer with this key without an invite, for as long as this listener lives.
    pub fn allow(&self, key: PublicKey) {
        self.door.allow(key);
    }

    /// Stops admitting the peer with this key, and ends its connections; returns true if it was
    /// known.
    pub fn revoke(&self, key: PublicKey) -> Result<bool, StoreError> {
        let known = self.door.revoke(key)?;
        self.gateway.drop_revoked();
        Ok(known)
    }

    /// Returns the key that peers have to expect here.
    pub fn public_key(&self) -> PublicKey {
        self.key
    }

    /// Returns the listening address, with the port that the system has chosen for port 0.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Returns the addresses of this host that an invite contains.
    pub fn advertised(&self) -> &[HostPort] {
        &self.advertised
    }

    /// Returns the counters of arriving peers.
    pub fn counters(&self) -> GatewayCounters {
        self.gateway.counters()
    }

    /// Stops listening and ends every connection in order: waits until all written data has
    /// arrived, at most for `patience`.
    pub async fn close(self, patience: Duration) {
        self.gateway.close(patience).await;
    }
}

impl std::fmt::Debug for BondListener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BondListener")
            .field("address", &self.address)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

/// Listens on the first of the addresses that can be listened on.
async fn listen(address: impl ToSocketAddrs) -> io::Result<tokio::net::TcpListener> {
    let mut problem = io::Error::new(io::ErrorKind::InvalidInput, "the name has no address");
    for address in tokio::net::lookup_host(address).await? {
        match bind::listen(address) {
            Ok(listener) => return Ok(listener),
            Err(error) => problem = error,
        }
    }
    Err(problem)
}

async fn own_addresses(listening: SocketAddr) -> Result<Vec<HostPort>, ListenError> {
    let mut ips = vec![listening.ip()];
    if listening.ip().is_unspecified() {
        let links = list_links().await?;
        let outward = links.iter().filter(|link| link.up && !link.loopback);
        ips = outward.flat_map(|link| link.addresses.clone()).collect();
        ips.retain(|ip| ip.is_ipv4() || listening.is_ipv6());
        if ips.is_empty() {
            ips.push(IpAddr::from([127, 0, 0, 1]));
        }
    }
    ips.truncate(MAX_ADDRESSES);
    let addresses = ips
        .into_iter()
        .map(|ip| SocketAddr::new(ip, listening.port()));
    // The port of a listener is never 0.
    Ok(addresses
        .filter_map(|address| HostPort::try_from(address).ok())
        .collect())
}
