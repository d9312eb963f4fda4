//! What carries the packets of associations.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hawser_sctp::{
    AssociationConfig, Checksum, Endpoint, EndpointConfig, Handled, Local, Route, Transmit,
};
use hawser_session::seal::datagram::{DatagramOpener, DatagramSealer, KeyId, OVERHEAD};
use hawser_session::seal::{Direction, SessionKeys};
use hawser_types::{ChannelId, Instant};
use ring::rand::{SecureRandom, SystemRandom};

use super::Gathered;
use super::socket::LinkSocket;

/// A carrier's name: the key id of what comes, or nothing where packets are not sealed.
pub(super) type CarrierId = Option<KeyId>;

/// One end's keys of a datagram channel, good for one association.
pub struct Seal {
    sealer: DatagramSealer,
    opener: DatagramOpener,
}

impl Seal {
    /// Keys of the session. `channel`: a number that both ends know and never use again;
    /// `direction`: of what this end sends.
    pub fn new(keys: &SessionKeys, channel: ChannelId, direction: Direction) -> Self {
        Self {
            sealer: keys.datagram_sealer(channel, direction),
            opener: keys.datagram_opener(channel, direction.reverse()),
        }
    }

    /// What stands at the front of the datagrams that come.
    pub(super) fn key_id(&self) -> KeyId {
        self.opener.key_id()
    }
}

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (ours, theirs) = (self.sealer.key_id(), self.opener.key_id());
        write!(f, "Seal({ours:?}, {theirs:?})")
    }
}

/// The association of one datagram channel, or all that are not sealed.
///
/// Each has an endpoint of its own, so that what one peer sends can concern no other's.
#[derive(Debug)]
pub(super) struct Carrier {
    pub(super) endpoint: Endpoint,
    seal: Option<Seal>,
    /// The peer may begin one (more).
    is_open: bool,
    /// Since when nobody needs it here; it answers stragglers for a while.
    ended: Option<Instant>,
}

impl Carrier {
    pub(super) fn plain(config: AssociationConfig, locals: &[Local]) -> io::Result<Self> {
        Self::new(EndpointConfig::new(config, locals), None)
    }

    /// For one association; `accepts`: the peer begins it. `config` as [`below_seal`] makes it.
    pub(super) fn sealed(
        config: AssociationConfig,
        locals: &[Local],
        seal: Seal,
        accepts: bool,
    ) -> io::Result<Self> {
        let config = EndpointConfig {
            accepts,
            max_associations: 1,
            max_associations_per_host: 1,
            ..EndpointConfig::new(config, locals)
        };
        Self::new(config, Some(seal))
    }

    fn new(config: EndpointConfig, seal: Option<Seal>) -> io::Result<Self> {
        let random = SystemRandom::new();
        let (mut secret, mut seed) = ([0; 32], [0; 8]);
        let drawn = random
            .fill(&mut secret)
            .and_then(|()| random.fill(&mut seed));
        drawn.map_err(|_| io::Error::other("the system gives no random numbers"))?;
        Ok(Self {
            is_open: config.accepts,
            endpoint: Endpoint::new(config, secret, u64::from_ne_bytes(seed)),
            seal,
            ended: None,
        })
    }

    pub(super) fn id(&self) -> CarrierId {
        self.seal.as_ref().map(Seal::key_id)
    }

    /// Gives a packet to the socket of its place, which is then among those that have gathered some.
    pub(super) fn send(
        &mut self,
        now: Instant,
        sockets: &[Arc<LinkSocket>],
        gathered: &mut Gathered,
        transmit: &Transmit,
    ) {
        let mut of_place = sockets.iter();
        let Some(socket) = of_place.find(|socket| socket.local() == transmit.route.local) else {
            return;
        };
        let sealer = self.seal.as_mut().map(|seal| &mut seal.sealer);
        socket.gather(now, transmit, sealer);
        if !gathered.iter().any(|other| Arc::ptr_eq(other, socket)) {
            gathered.push(socket.clone());
        }
    }

    fn handle(&mut self, now: Instant, route: Route, datagram: BytesMut) -> Option<Handled> {
        let packet: Bytes = match &mut self.seal {
            None => datagram.freeze(),
            Some(seal) => seal.opener.open(now, datagram).ok()?,
        };
        let handled = self.endpoint.handle_datagram(now, route, packet);
        if let Handled::Accepted(id, _) = &handled
            && self.seal.is_some()
            && !std::mem::take(&mut self.is_open)
        {
            self.endpoint.forget(*id);
            return None;
        }
        Some(handled)
    }
}

/// All carriers of one set of sockets.
#[derive(Debug, Default)]
pub(super) struct Carriers(BTreeMap<CarrierId, Carrier>);

impl Carriers {
    /// Whether its name was free.
    pub(super) fn insert(&mut self, carrier: Carrier) -> bool {
        let id = carrier.id();
        let is_new = !self.0.contains_key(&id);
        if is_new {
            self.0.insert(id, carrier);
        }
        is_new
    }

    pub(super) fn set_locals(&mut self, locals: &[Local]) {
        for carrier in self.0.values_mut() {
            carrier.endpoint.set_locals(locals);
        }
    }

    pub(super) fn get(&mut self, id: CarrierId) -> Option<&mut Carrier> {
        self.0.get_mut(&id)
    }

    /// Finds out which carrier a datagram belongs to and what it means there; `None` if it means nothing.
    pub(super) fn handle(
        &mut self,
        now: Instant,
        route: Route,
        datagram: BytesMut,
    ) -> Option<(CarrierId, Handled)> {
        let key = KeyId::of(&datagram).filter(|key| self.0.contains_key(&Some(*key)));
        let handled = self.0.get_mut(&key)?.handle(now, route, datagram)?;
        Some((key, handled))
    }

    /// Nobody needs this one any more.
    pub(super) fn end(&mut self, now: Instant, key: KeyId) {
        if let Some(carrier) = self.0.get_mut(&Some(key)) {
            carrier.is_open = false;
            carrier.ended.get_or_insert(now);
        }
    }

    /// Forgets those that nobody has needed for some time.
    pub(super) fn remove_ended(&mut self, now: Instant) {
        let is_over = |ended: Instant| now.since(ended) >= STRAGGLERS;
        self.0
            .retain(|_, carrier| !carrier.ended.is_some_and(is_over));
    }
}

/// How an association behaves whose packets are sealed: the seal does what a checksum would, and
/// takes its part of every datagram.
pub(super) fn below_seal(config: AssociationConfig) -> AssociationConfig {
    AssociationConfig {
        checksum: Checksum::Below,
        max_packet: config.max_packet.saturating_sub(OVERHEAD),
        ..config
    }
}

/// How long the peer's last packets are answered after an association is over.
const STRAGGLERS: Duration = Duration::from_secs(60);
