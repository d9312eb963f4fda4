//! Associations over UDP: the sockets, and who drives them.
//!
//! Packets travel as they are, so that other stacks understand them (RFC 6951), or each sealed as a
//! datagram with the keys of a session.

mod carrier;
mod handle;
mod places;
mod socket;
mod timers;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::{Bytes, BytesMut};
use carrier::{Carrier, CarrierId, Carriers, Openers};
use hawser_sctp::{
    Association, AssociationConfig, AssociationId, Begin, Closed, ConnectError, Event, Handled,
    Local, Route, Transmit,
};
use hawser_session::SessionConfig;
use hawser_session::seal::datagram::KeyId;
use hawser_types::{ByteCount, Instant};
use smallvec::SmallVec;
use tokio::sync::Notify;

use crate::clock;
pub use carrier::Seal;
pub use handle::{AssociationHandle, Expected};
use places::Tasks;
use socket::LinkSocket;
use timers::drive_timers;

/// One end of any number of associations: its sockets, and the tasks that drive them.
///
/// Dropping it ends every association without a word; end them before, by their handles.
#[derive(Debug)]
pub struct AssociationEndpoint {
    shared: Arc<Shared>,
    /// Ended when this is dropped.
    tasks: Mutex<Tasks>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Datagrams are opened before the lock of the state is taken.
    openers: Openers,
    /// The first timer may be earlier than it was.
    sooner: Notify,
    /// An association has come.
    arrived: Notify,
}

#[derive(Debug)]
struct State {
    carriers: Carriers,
    locals: Vec<Local>,
    sockets: Vec<Arc<LinkSocket>>,
    /// Of all sockets, once there is one.
    port: Option<u16>,
    /// Those that have to send what was gathered.
    gathered: Gathered,
    associations: BTreeMap<Id, Entry>,
    /// When each of them is to be told that time has passed.
    timers: BTreeSet<(Instant, Id)>,
    /// Associations that were accepted, and nobody has taken yet.
    incoming: VecDeque<Id>,
    /// When the task that drives timers looks again.
    awake_at: Option<Instant>,
}

/// Sockets that have something to send.
type Gathered = SmallVec<[Arc<LinkSocket>; 4]>;

/// The state, while nobody else has it. What was gathered meanwhile is sent when it is given back.
#[derive(Debug)]
struct Locked<'a>(Option<MutexGuard<'a, State>>);

/// An association, and what carries it.
type Id = (CarrierId, AssociationId);

#[derive(Debug)]
struct Entry {
    association: Association,
    is_established: bool,
    /// The peer has begun anew: what was under way is lost.
    was_restarted: bool,
    closed: Option<Closed>,
    /// As it stands among the timers.
    timer: Option<Instant>,
    /// A message was refused for want of room, and there has been none since.
    is_full: bool,
    /// Somebody waits until less than this waits in its queue.
    room_below: Option<ByteCount>,
    /// Something changed for those who wait on it.
    changed: Arc<Notify>,
}

impl AssociationEndpoint {
    /// Binds a socket for each place, all of them to the UDP port `port`; 0 lets the system choose
    /// one for all. Anybody may begin associations, and nothing is sealed. Must be called within a
    /// tokio runtime.
    ///
    /// # Errors
    /// When a socket can't be had, or can't be bound to its link.
    pub fn bind(config: AssociationConfig, locals: &[Local], port: u16) -> io::Result<Self> {
        let endpoint = Self::bind_sealed(locals, port)?;
        let plain = Carrier::plain(config, locals)?;
        endpoint.shared.lock().carriers.insert(plain);
        Ok(endpoint)
    }

    /// As [`Self::bind`], but silent towards everybody without keys: associations come about by
    /// [`Self::expect`] and [`Self::connect_sealed`] alone.
    ///
    /// # Errors
    /// As [`Self::bind`].
    pub fn bind_sealed(locals: &[Local], port: u16) -> io::Result<Self> {
        let state = State {
            carriers: Carriers::default(),
            locals: Vec::new(),
            sockets: Vec::new(),
            port: (port > 0).then_some(port),
            gathered: Gathered::new(),
            associations: BTreeMap::new(),
            timers: BTreeSet::new(),
            incoming: VecDeque::new(),
            awake_at: None,
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            openers: Openers::default(),
            sooner: Notify::new(),
            arrived: Notify::new(),
        });
        let endpoint = Self {
            tasks: Mutex::new(Tasks::new(drive_timers(shared.clone()))),
            shared,
        };
        match endpoint.set_locals(locals).into_iter().next() {
            Some((_, error)) => Err(error),
            None => Ok(endpoint),
        }
    }

    /// The UDP port of all its sockets.
    ///
    /// # Errors
    /// When there has been none yet.
    pub fn port(&self) -> io::Result<u16> {
        let port = self.shared.lock().port;
        port.ok_or(io::ErrorKind::NotConnected.into())
    }

    /// Begins an association that is not sealed with a host at these addresses (with their UDP ports).
    ///
    /// # Errors
    /// When none of them can be reached from here, there is an association with it already, or
    /// everything is sealed here.
    pub fn connect(
        &self,
        config: AssociationConfig,
        remotes: &[SocketAddr],
    ) -> Result<AssociationHandle, ConnectError> {
        self.connect_over(None, config, remotes)
    }

    /// Begins an association under a seal with the peer at these addresses (with their UDP ports),
    /// who expects it.
    ///
    /// # Errors
    /// See [`SealedError`].
    pub fn connect_sealed(
        &self,
        config: AssociationConfig,
        remotes: &[SocketAddr],
        seal: Seal,
    ) -> Result<AssociationHandle, SealedError> {
        let config = carrier::below_seal(config);
        let expected = self.insert_sealed(config.clone(), seal, false)?;
        Ok(self.connect_over(Some(expected.key()), config, remotes)?)
    }

    /// Expects that the peer begins an association under this seal. Call it before the peer is told.
    ///
    /// # Errors
    /// See [`SealedError`].
    pub fn expect(&self, config: AssociationConfig, seal: Seal) -> Result<Expected, SealedError> {
        self.insert_sealed(carrier::below_seal(config), seal, true)
    }

    /// The next association without a seal that somebody else began.
    pub async fn accept(&self) -> AssociationHandle {
        self.shared.accept(None).await
    }

    fn insert_sealed(
        &self,
        config: AssociationConfig,
        seal: Seal,
        accepts: bool,
    ) -> Result<Expected, SealedError> {
        let mut state = self.shared.lock();
        let key = seal.key_id();
        let Seal { sealer, opener } = seal;
        let carrier = Carrier::sealed(config, &state.locals, (key, sealer), accepts)?;
        let ended = state.carriers.remove_ended(clock::now());
        self.shared.openers.remove(&ended);
        if !state.carriers.insert(carrier) {
            return Err(SealedError::KeyInUse);
        }
        self.shared.openers.insert(key, opener);
        drop(state);
        Ok(Expected::new(self.shared.clone(), key))
    }

    fn connect_over(
        &self,
        carrier: CarrierId,
        config: AssociationConfig,
        remotes: &[SocketAddr],
    ) -> Result<AssociationHandle, ConnectError> {
        let now = clock::now();
        let mut state = self.shared.lock();
        let locals = state.locals.clone();
        let found = state.carriers.get(carrier).ok_or(ConnectError::NoRoute)?;
        let (id, association) = found.endpoint.connect(now, config, &locals, remotes)?;
        let id = (carrier, id);
        let changed = state.insert(id, association);
        state.pump(now, id);
        self.shared.look_at_timers(&mut state);
        drop(state);
        Ok(AssociationHandle::new(self.shared.clone(), id, changed))
    }
}

/// How an association of a session behaves that is configured so.
pub(crate) fn config_for(session: &SessionConfig) -> AssociationConfig {
    AssociationConfig {
        policy: session.scheduler,
        max_message: MAX_RECORD,
        begin: Begin::AtOnce,
        max_init_retransmissions: 5,
        ..AssociationConfig::default()
    }
}

/// Why there is no association under a seal.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SealedError {
    /// The system gives no random numbers.
    #[error("can't make keys for cookies: {0}")]
    Random(#[from] io::Error),
    /// The number of the datagram channel was used before, or another's keys have the same name.
    #[error("the datagram channel's keys are in use")]
    KeyInUse,
    /// It can't begin.
    #[error(transparent)]
    Connect(#[from] ConnectError),
}

impl Shared {
    fn lock(&self) -> Locked<'_> {
        // Who holds it does not panic; if it did, what it left would be no worse than a lost packet.
        let state = self.state.lock();
        Locked(Some(state.unwrap_or_else(|poisoned| poisoned.into_inner())))
    }

    /// The next association over `carrier` that the peer began.
    async fn accept(self: &Arc<Self>, carrier: CarrierId) -> AssociationHandle {
        loop {
            let arrived = self.arrived.notified();
            tokio::pin!(arrived);
            arrived.as_mut().enable();
            let taken = {
                let mut state = self.lock();
                let id = state.take_incoming(carrier);
                id.and_then(|id| Some((id, state.associations.get(&id)?.changed.clone())))
            };
            if let Some((id, changed)) = taken {
                return AssociationHandle::new(self.clone(), id, changed);
            }
            arrived.await;
        }
    }

    /// Datagrams have come to a socket.
    fn handle_datagrams(
        &self,
        local: Local,
        datagrams: &mut Vec<(SocketAddr, BytesMut)>,
        packets: &mut Vec<(SocketAddr, (CarrierId, Bytes))>,
    ) {
        let now = clock::now();
        packets.clear();
        let take = |remote, packet| packets.push((remote, packet));
        self.openers.open(now, datagrams.drain(..), take);
        let mut state = self.lock();
        let mut touched: SmallVec<[Id; 4]> = SmallVec::new();
        for (remote, packet) in packets.drain(..) {
            let route = Route { local, remote };
            let carrier = packet.0;
            // What no carrier understands is not answered.
            let Some(handled) = state.carriers.handle(now, route, packet) else {
                continue;
            };
            match handled {
                Handled::Ignored(_) => {}
                Handled::Reply(transmit) => {
                    state.send(now, carrier, &transmit);
                }
                Handled::Accepted(id, association) => {
                    let id = (carrier, id);
                    state.insert(id, *association);
                    // Those under a seal are expected, so there are no more than somebody waits for.
                    if carrier.is_some() || state.incoming.len() < MAX_INCOMING {
                        state.incoming.push_back(id);
                        self.arrived.notify_waiters();
                        touched.push(id);
                    } else {
                        state.drop_association(now, id);
                    }
                }
                Handled::For(id, packet) => {
                    let id = (carrier, id);
                    if let Some(entry) = state.associations.get_mut(&id) {
                        entry.association.handle_packet(now, route, &packet);
                        if !touched.contains(&id) {
                            touched.push(id);
                        }
                    }
                }
            }
        }
        for id in touched {
            state.pump(now, id);
        }
        self.look_at_timers(&mut state);
    }
}

impl Deref for Locked<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        self.0.as_ref().expect("held until dropped")
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut State {
        self.0.as_mut().expect("held until dropped")
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let Some(mut state) = self.0.take() else {
            return;
        };
        let gathered = std::mem::take(&mut state.gathered);
        drop(state);
        gathered.iter().for_each(|socket| socket.flush());
    }
}

impl State {
    fn insert(&mut self, id: Id, association: Association) -> Arc<Notify> {
        let changed = Arc::new(Notify::new());
        let entry = Entry {
            association,
            is_established: false,
            was_restarted: false,
            closed: None,
            timer: None,
            is_full: false,
            room_below: None,
            changed: changed.clone(),
        };
        self.associations.insert(id, entry);
        changed
    }

    fn take_incoming(&mut self, carrier: CarrierId) -> Option<Id> {
        let at = self.incoming.iter().position(|id| id.0 == carrier)?;
        self.incoming.remove(at)
    }

    /// Nobody waits for an association under this key any more, nor has one.
    fn give_up(&mut self, key: KeyId) {
        if let Some(id) = self.take_incoming(Some(key)) {
            self.drop_association(clock::now(), id);
        }
        if !self.associations.keys().any(|id| id.0 == Some(key)) {
            self.carriers.end(clock::now(), key);
        }
    }

    /// Ends an association at once, if it is not over yet, and forgets it.
    fn drop_association(&mut self, now: Instant, id: Id) {
        if let Some(entry) = self.associations.get_mut(&id) {
            entry.association.abort(bytes::Bytes::new());
        }
        self.pump(now, id);
        let timer = self.associations.remove(&id).and_then(|it| it.timer);
        timer.map(|at| self.timers.remove(&(at, id)));
        if let Some(carrier) = self.carriers.get(id.0) {
            carrier.endpoint.forget(id.1);
        }
    }

    /// Sends what an association has to send, takes what it has to tell, and notes when it is to be told of the
    /// time. To be called after whatever changes it.
    fn pump(&mut self, now: Instant, id: Id) {
        self.take_from(now, id);
        self.set_timer(id);
    }

    fn take_from(&mut self, now: Instant, id: Id) {
        let (Some(entry), Some(carrier)) =
            (self.associations.get_mut(&id), self.carriers.get(id.0))
        else {
            return;
        };
        while let Some(transmit) = entry.association.poll_transmit(now) {
            carrier.send(now, &self.sockets, &mut self.gathered, &transmit);
        }
        let mut told = false;
        while let Some(event) = entry.association.poll_event() {
            told = true;
            match event {
                Event::Established => entry.is_established = true,
                Event::Restarted => entry.was_restarted = true,
                Event::Writable => entry.is_full = false,
                Event::PeerAddresses(known) => carrier.endpoint.addresses_changed(id.1, &known),
                Event::Closed(why) => {
                    entry.closed = Some(why);
                    carrier.endpoint.forget(id.1);
                }
                _ => {}
            }
        }
        let has_room = |below| entry.association.queued() < below;
        if entry.room_below.is_some_and(has_room) {
            entry.room_below = None;
            told = true;
        }
        if told {
            entry.changed.notify_waiters();
        }
    }

    fn send(&mut self, now: Instant, carrier: CarrierId, transmit: &Transmit) {
        if let Some(carrier) = self.carriers.get(carrier) {
            carrier.send(now, &self.sockets, &mut self.gathered, transmit);
        }
    }
}

/// More than a record has, whose chunk has 64 KiB at most.
const MAX_RECORD: ByteCount = ByteCount::new(256 * 1024);
/// Associations that nobody has taken yet; what comes beyond is ended at once.
const MAX_INCOMING: usize = if cfg!(test) { 2 } else { 1024 };

#[cfg(test)]
mod tests;
