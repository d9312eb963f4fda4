//! Associations over UDP: the sockets, and what drives them.
//!
//! A datagram carries an SCTP packet as it is, so that other SCTP stacks understand it (RFC 6951),
//! or sealed with the keys of a session. A *place* is a local address on a link.
//!
//! Path of a received datagram: `receiver` reads a socket, `keyed_endpoints` finds the endpoint of
//! the datagram's key, `keyed_endpoint` decrypts the datagram and hands the packet to the
//! association, and `handle` wakes the reader of messages; `arrivals` hands on packets of a tunnel.
//! Path of a sent datagram: `handle` changes an association, `keyed_endpoint` gathers the packets,
//! and `socket` seals and sends them in trains.
//!
//! Locks, in the order in which they are taken: the places; the table of endpoints, only for a
//! look-up; one endpoint, with its associations; and, under the endpoint's lock, the outbox of a
//! socket or the timers.

mod arrivals;
mod entry;
mod handle;
mod keyed_endpoint;
mod keyed_endpoints;
mod outlet;
mod places;
mod receiver;
mod seal;
mod socket;
mod timers;
mod tokens;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::BytesMut;
use hawser_channels::association::below_seal;
use hawser_sctp::{AssociationConfig, AssociationId, ConnectError, Local};
use hawser_session::seal::datagram::KeyId;
use hawser_types::ByteCount;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::clock;
use crate::takeover::ToPredecessor;
pub(crate) use handle::TunnelFlows;
pub use handle::{AssociationHandle, Expected};
use keyed_endpoint::KeyedEndpoint;
use keyed_endpoints::KeyedEndpoints;
use places::Places;
pub use seal::Seal;
pub use tokens::{Sightings, Token};

/// One end of any number of associations: its sockets, and the tasks that drive them.
///
/// Dropping it ends every association without telling the peers; end them before, by their handles.
#[derive(Debug)]
pub struct AssociationEndpoint {
    endpoints: Arc<KeyedEndpoints>,
    places: Arc<Mutex<Places>>,
}

/// Reason why a sealed association could not be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SealedError {
    /// The system gives no random numbers.
    #[error("can't make keys for cookies: {0}")]
    Random(#[from] io::Error),
    /// The datagram channel's number was used before, or another channel has the same key id.
    #[error("the datagram channel's keys are in use")]
    KeyInUse,
    /// The association can't begin.
    #[error(transparent)]
    Connect(#[from] ConnectError),
}

impl AssociationEndpoint {
    /// Binds a socket for each place, all of them to the UDP port `port`; 0 lets the system choose
    /// one for all. Any host may begin associations, and nothing is sealed. Must be called within a
    /// tokio runtime.
    ///
    /// # Errors
    /// When a socket can't be opened, or can't be bound to its link.
    pub fn bind(config: AssociationConfig, locals: &[Local], port: u16) -> io::Result<Self> {
        let endpoint = Self::bind_sealed(locals, port)?;
        let timers = endpoint.endpoints.timers();
        let plain = Arc::new(KeyedEndpoint::plain(config, timers)?);
        endpoint.insert(&plain);
        Ok(endpoint)
    }

    /// As [`Self::bind`], but silent towards every host without keys: associations begin only by
    /// [`Self::expect`] and [`Self::connect_sealed`].
    ///
    /// # Errors
    /// As [`Self::bind`].
    pub fn bind_sealed(locals: &[Local], port: u16) -> io::Result<Self> {
        Self::bind_after(None, locals, port)
    }

    /// As [`Self::bind_sealed`], beside the sockets of the predecessor process, if there is one.
    /// This end receives their datagrams from now on, and passes those without a known key to the
    /// predecessor.
    ///
    /// # Errors
    /// As [`Self::bind`].
    pub fn bind_after(
        predecessor: Option<ToPredecessor>,
        locals: &[Local],
        port: u16,
    ) -> io::Result<Self> {
        let endpoints = Arc::new(KeyedEndpoints::after(predecessor));
        let places = Places::new(Arc::clone(&endpoints), (port > 0).then_some(port));
        let endpoint = Self {
            endpoints,
            places: Arc::new(Mutex::new(places)),
        };
        match endpoint.set_locals(locals).into_iter().next() {
            Some((_, error)) => Err(error),
            None => Ok(endpoint),
        }
    }

    /// The UDP port of all sockets.
    ///
    /// # Errors
    /// When no socket has been bound yet.
    pub fn port(&self) -> io::Result<u16> {
        let port = self.places.lock().port();
        port.ok_or(io::ErrorKind::NotConnected.into())
    }

    /// Replaces the places that packets leave from: local addresses, each on its link. Binds
    /// sockets for new places, and tells the established associations, which tell their peers. The
    /// socket of a place with link number 0 is not bound to a link. Returns the places that can't
    /// be used, each with its error; the others are used nevertheless.
    /// Must be called within a tokio runtime.
    pub fn set_locals(&self, locals: &[Local]) -> Vec<(Local, io::Error)> {
        self.places.lock().set(locals)
    }

    /// Also receives packets at these detours: an address with a link that does not own it. Packets
    /// leave from a detour, too, once a packet there has named the key of an association; at most
    /// four detours are used so. Detours need a port that was given with [`Self::bind_sealed`].
    /// Must be called within a tokio runtime.
    pub fn allow_detours(&self, detours: &[Local]) {
        self.places.lock().allow_detours(&self.places, detours);
    }

    /// Begins an unsealed association with a host at these addresses (with their UDP ports).
    ///
    /// # Errors
    /// When no address can be reached from here, an association with the host exists already, or
    /// this end has sealed associations only.
    pub fn connect(
        &self,
        config: AssociationConfig,
        remotes: &[SocketAddr],
    ) -> Result<AssociationHandle, ConnectError> {
        let plain = self.endpoints.get(None).ok_or(ConnectError::NoRoute)?;
        let (id, changed) = plain.connect(clock::now(), config, remotes)?;
        Ok(self.handle(plain, id, changed))
    }

    /// Begins a sealed association with the peer at these addresses (with their UDP ports). The
    /// peer must expect the association.
    ///
    /// # Errors
    /// See [`SealedError`].
    pub fn connect_sealed(
        &self,
        config: AssociationConfig,
        remotes: &[SocketAddr],
        seal: Seal,
    ) -> Result<AssociationHandle, SealedError> {
        let config = below_seal(config);
        let expected = self.insert_sealed(config.clone(), seal, false)?;
        let endpoint = expected.endpoint();
        let (id, changed) = endpoint.connect(clock::now(), config, remotes)?;
        Ok(self.handle(Arc::clone(endpoint), id, changed))
    }

    /// Expects that the peer begins an association under this seal. Call this before telling the
    /// peer.
    ///
    /// # Errors
    /// See [`SealedError`].
    pub fn expect(&self, config: AssociationConfig, seal: Seal) -> Result<Expected, SealedError> {
        self.insert_sealed(below_seal(config), seal, true)
    }

    /// Forgets keys that no association needs any more, without waiting for the peer's late
    /// packets. Keeps and returns the keys of associations that are established or expected.
    pub fn forget_ended(&self, keys: &[KeyId]) -> Vec<KeyId> {
        self.endpoints.forget_ended(keys)
    }

    /// Marks the session of these keys as over: forgets each key once no association needs it.
    pub fn disown(&self, keys: &[KeyId]) {
        self.endpoints.disown(keys);
    }

    /// Handles datagrams that arrived at the sockets of another process, at a place that this end
    /// has too.
    pub fn handle_datagrams(&self, local: Local, mut datagrams: Vec<(SocketAddr, BytesMut)>) {
        self.endpoints.handle_datagrams(local, &mut datagrams);
    }

    /// Sends an unsealed datagram, which may be lost, from every place that may lead to `remote`.
    pub fn send_unsealed(&self, remote: SocketAddr, bytes: &[u8]) {
        self.places.lock().send_unsealed(remote, bytes);
    }

    /// Waits for datagrams that consist of this token. Returns `None` if the token is waited for
    /// already, or if too many tokens are.
    pub fn wait_for_token(&self, token: Token) -> Option<Sightings> {
        self.endpoints.tokens().wait(token)
    }

    /// The approximate memory of all associations, and the key of the largest one.
    pub fn held(&self) -> (ByteCount, Option<KeyId>) {
        self.endpoints.held()
    }

    /// The number of keys that are known.
    #[cfg(test)]
    pub(crate) fn known(&self) -> usize {
        self.endpoints.list().len()
    }

    /// Ends the association of these keys at once, if there is one.
    pub fn abort(&self, key: KeyId) {
        if let Some(endpoint) = self.endpoints.get(Some(key)) {
            endpoint.abort_all();
        }
    }

    /// Returns the next unsealed association that another host began.
    pub async fn accept(&self) -> AssociationHandle {
        let Some(plain) = self.endpoints.get(None) else {
            return std::future::pending().await;
        };
        let (id, changed) = plain.accept().await;
        self.handle(plain, id, changed)
    }

    fn insert_sealed(
        &self,
        config: AssociationConfig,
        seal: Seal,
        accepts: bool,
    ) -> Result<Expected, SealedError> {
        let timers = self.endpoints.timers();
        let endpoint = Arc::new(KeyedEndpoint::sealed(config, seal, accepts, timers)?);
        if self.insert(&endpoint) {
            Ok(Expected::new(Arc::clone(&self.endpoints), endpoint))
        } else {
            Err(SealedError::KeyInUse)
        }
    }

    /// Adds an endpoint, unless its key id is taken. Holds the lock of the places meanwhile, so
    /// that the endpoint knows all of them and hears of every change.
    fn insert(&self, endpoint: &Arc<KeyedEndpoint>) -> bool {
        let places = self.places.lock();
        places.tell(endpoint);
        self.endpoints.insert(endpoint)
    }

    fn handle(
        &self,
        endpoint: Arc<KeyedEndpoint>,
        id: AssociationId,
        changed: Arc<Notify>,
    ) -> AssociationHandle {
        AssociationHandle::new(Arc::clone(&self.endpoints), endpoint, id, changed)
    }
}

#[cfg(test)]
mod tests;
