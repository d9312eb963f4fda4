//! What carries the packets of associations.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hawser_sctp::{
    AssociationConfig, Checksum, Endpoint, EndpointConfig, Framing, Handled, Local, Route, Transmit,
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
    pub(super) sealer: DatagramSealer,
    pub(super) opener: DatagramOpener,
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
    id: CarrierId,
    sealer: Option<DatagramSealer>,
    /// The peer may begin one (more).
    is_open: bool,
    /// Since when nobody needs it here; it answers stragglers for a while.
    ended: Option<Instant>,
}

impl Carrier {
    pub(super) fn plain(config: AssociationConfig, locals: &[Local]) -> io::Result<Self> {
        Self::new(EndpointConfig::new(config, locals), None, None)
    }

    /// For one association; `accepts`: the peer begins it. `config` as [`below_seal`] makes it, `key`: of
    /// what comes.
    pub(super) fn sealed(
        config: AssociationConfig,
        locals: &[Local],
        (key, sealer): (KeyId, DatagramSealer),
        accepts: bool,
    ) -> io::Result<Self> {
        let config = EndpointConfig {
            accepts,
            max_associations: 1,
            max_associations_per_host: 1,
            ..EndpointConfig::new(config, locals)
        };
        Self::new(config, Some(key), Some(sealer))
    }

    fn new(
        config: EndpointConfig,
        id: CarrierId,
        sealer: Option<DatagramSealer>,
    ) -> io::Result<Self> {
        let random = SystemRandom::new();
        let (mut secret, mut seed) = ([0; 32], [0; 8]);
        let drawn = random
            .fill(&mut secret)
            .and_then(|()| random.fill(&mut seed));
        drawn.map_err(|_| io::Error::other("the system gives no random numbers"))?;
        Ok(Self {
            is_open: config.accepts,
            endpoint: Endpoint::new(config, secret, u64::from_ne_bytes(seed)),
            id,
            sealer,
            ended: None,
        })
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
        socket.gather(now, transmit, self.sealer.as_mut());
        if !gathered.iter().any(|other| Arc::ptr_eq(other, socket)) {
            gathered.push(socket.clone());
        }
    }

    fn handle(&mut self, now: Instant, route: Route, packet: Bytes) -> Option<Handled> {
        let handled = self.endpoint.handle_datagram(now, route, packet);
        if let Handled::Accepted(id, _) = &handled
            && self.sealer.is_some()
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
        let id = carrier.id;
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

    /// Finds out what a packet that has come by a carrier means there; `None` if it means nothing.
    pub(super) fn handle(
        &mut self,
        now: Instant,
        route: Route,
        (carrier, packet): (CarrierId, Bytes),
    ) -> Option<Handled> {
        self.0.get_mut(&carrier)?.handle(now, route, packet)
    }

    /// Nobody needs this one any more.
    pub(super) fn end(&mut self, now: Instant, key: KeyId) {
        if let Some(carrier) = self.0.get_mut(&Some(key)) {
            carrier.is_open = false;
            carrier.ended.get_or_insert(now);
        }
    }

    /// Forgets those that nobody has needed for some time, and tells their keys.
    pub(super) fn remove_ended(&mut self, now: Instant) -> Vec<KeyId> {
        let is_over = |ended: Instant| now.since(ended) >= STRAGGLERS;
        let ended = self
            .0
            .iter()
            .filter(|(_, it)| it.ended.is_some_and(is_over));
        let ended: Vec<KeyId> = ended.filter_map(|(id, _)| *id).collect();
        self.0
            .retain(|id, _| id.is_none_or(|key| !ended.contains(&key)));
        ended
    }
}

/// What opens sealed datagrams, by their keys: each under a lock of its own, so that who opens one holds
/// up nobody but others with datagrams of the same association.
#[derive(Debug, Default)]
pub(super) struct Openers(RwLock<BTreeMap<KeyId, Opener>>);

type Opener = Arc<Mutex<DatagramOpener>>;

impl Openers {
    pub(super) fn insert(&self, key: KeyId, opener: DatagramOpener) {
        let opener = Arc::new(Mutex::new(opener));
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        all.insert(key, opener);
    }

    pub(super) fn remove(&self, keys: &[KeyId]) {
        if !keys.is_empty() {
            let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
            all.retain(|key, _| !keys.contains(key));
        }
    }

    /// Which carriers datagrams are for, and the packets in them, in their order. What is sealed and does
    /// not open is not among them.
    pub(super) fn open(
        &self,
        now: Instant,
        datagrams: impl Iterator<Item = (SocketAddr, BytesMut)>,
        mut take: impl FnMut(SocketAddr, (CarrierId, Bytes)),
    ) {
        // Most come in rows from one peer.
        let mut latest: Option<(KeyId, Opener)> = None;
        for (remote, datagram) in datagrams {
            let key = KeyId::of(&datagram);
            if latest.as_ref().map(|(key, _)| *key) != key {
                let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
                latest = key.and_then(|key| Some((key, Arc::clone(all.get(&key)?))));
            }
            match &latest {
                None => take(remote, (None, datagram.freeze())),
                Some((key, opener)) => {
                    let mut opener = opener.lock().unwrap_or_else(PoisonError::into_inner);
                    if let Ok(packet) = opener.open(now, datagram) {
                        take(remote, (Some(*key), packet));
                    }
                }
            }
        }
    }
}

/// How an association behaves whose packets are sealed: the seal does what a checksum would, and
/// takes its part of every datagram.
pub(super) fn below_seal(config: AssociationConfig) -> AssociationConfig {
    AssociationConfig {
        checksum: Checksum::Below,
        framing: Framing::Compact,
        max_packet: config.max_packet.saturating_sub(OVERHEAD),
        ..config
    }
}

/// How long the peer's last packets are answered after an association is over.
const STRAGGLERS: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use hawser_session::seal::Aead;
    use zeroize::Zeroizing;

    use super::*;

    const NOW: Instant = Instant::from_nanos(1);

    fn keys() -> SessionKeys {
        SessionKeys::new(Zeroizing::new([7; 32]), Aead::Aes128Gcm)
    }

    fn seal(channel: u32) -> Seal {
        Seal::new(&keys(), ChannelId::new(channel), Direction::GatewayToClient)
    }

    fn carrier(channel: u32) -> Carrier {
        let seal = seal(channel);
        let config = below_seal(AssociationConfig::default());
        Carrier::sealed(config, &[], (seal.key_id(), seal.sealer), true).unwrap()
    }

    /// Of datagrams under these channels' keys, which carriers they are for.
    fn opened(openers: &Openers, datagrams: &[BytesMut]) -> Vec<(CarrierId, Bytes)> {
        let remote = SocketAddr::from(([127, 0, 0, 1], 1));
        let datagrams = datagrams.iter().map(|it| (remote, it.clone()));
        let mut packets = Vec::new();
        openers.open(NOW, datagrams, |_, packet| packets.push(packet));
        packets
    }

    #[test]
    fn each_datagram_is_opened_once_by_its_own_keys_in_the_order_in_which_they_came() {
        let (openers, mut datagrams) = (Openers::default(), Vec::new());
        let mut sealers = [1, 2].map(|channel| {
            let seal = seal(channel);
            openers.insert(seal.key_id(), seal.opener);
            keys().datagram_sealer(ChannelId::new(channel), Direction::ClientToGateway)
        });
        for channel in [0, 0, 1, 0] {
            let mut datagram = BytesMut::new();
            sealers[channel]
                .seal(NOW, &[channel as u8], &mut datagram)
                .unwrap();
            datagrams.push(datagram);
        }
        datagrams.push(BytesMut::from(&b"neither"[..]));
        let [one, two] = [1, 2].map(|channel| Some(seal(channel).key_id()));
        let found = opened(&openers, &datagrams);
        let carriers: Vec<CarrierId> = found.iter().map(|(carrier, _)| *carrier).collect();
        assert_eq!(carriers, [one, one, two, one, None]);
        let packets: Vec<&[u8]> = found.iter().map(|(_, packet)| &packet[..]).collect();
        assert_eq!(packets, [&[0][..], &[0], &[1], &[0], b"neither"]);
        assert_eq!(opened(&openers, &datagrams[..4]), []);
    }

    #[test]
    fn keys_that_nobody_has_needed_for_some_time_open_nothing_more() {
        let (mut carriers, openers) = (Carriers::default(), Openers::default());
        for channel in [1, 2] {
            assert!(carriers.insert(carrier(channel)));
            let seal = seal(channel);
            openers.insert(seal.key_id(), seal.opener);
        }
        let [one, two] = [1, 2].map(|channel| seal(channel).key_id());
        carriers.end(NOW, one);
        assert_eq!(carriers.remove_ended(NOW), []);
        let ended = carriers.remove_ended(NOW + STRAGGLERS);
        assert_eq!(ended, [one]);
        assert!(carriers.get(Some(one)).is_none() && carriers.get(Some(two)).is_some());
        openers.remove(&ended);
        let left: Vec<KeyId> = openers.0.read().unwrap().keys().copied().collect();
        assert_eq!(left, [two]);
    }
}
